//! Objects of JSON that are written in one place.

/// An object that serializes: keys with their values, in order. `[key]` has the items of an iterator, `some(key)` is left
/// out where its value is `None`, the keys of `flat(name)` stand beside the others, and `(key, key)` are the parts of a
/// tuple.
///
/// ```
/// let object = question::object!(
///     step_ns = 22_500_000,
///     (low, high) = (0.5, 1.5),
///     [links_ns] = (1..3).map(|link| 500 * link),
///     some(limit) = None::<u64>,
///     flat(peak) = question::object!(peak_bytes = 4),
/// );
/// let expected = r#"{"step_ns":22500000,"low":0.5,"high":1.5,"links_ns":[500,1000],"peak_bytes":4}"#;
/// assert_eq!(serde_json::to_string(&object)?, expected);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[macro_export]
macro_rules! object {
    (@[$($let:tt)*] [$($field:tt)*] ($($key:ident),+) = $value:expr, $($rest:tt)*) => {
        $crate::object!(
            @[$($let)* let ($($key),+) = $value;] [$($field)* $(($key: $key = $key))+] $($rest)*
        )
    };
    (@[$($let:tt)*] [$($field:tt)*] [$key:ident] = $value:expr, $($rest:tt)*) => {
        $crate::object!(@[$($let)*] [$($field)* (
            $key: $key = ::std::iter::IntoIterator::into_iter($value).collect::<Vec<_>>()
        )] $($rest)*)
    };
    (@[$($let:tt)*] [$($field:tt)*] some($key:ident) = $value:expr, $($rest:tt)*) => {
        $crate::object!(@[$($let)*] [$($field)* (
            #[serde(skip_serializing_if = "Option::is_none")] $key: Option<$key> = $value
        )] $($rest)*)
    };
    (@[$($let:tt)*] [$($field:tt)*] flat($key:ident) = $value:expr, $($rest:tt)*) => {
        $crate::object!(
            @[$($let)*] [$($field)* (#[serde(flatten)] $key: $key = $value)] $($rest)*
        )
    };
    (@[$($let:tt)*] [$($field:tt)*] $key:ident = $value:expr, $($rest:tt)*) => {
        $crate::object!(@[$($let)*] [$($field)* ($key: $key = $value)] $($rest)*)
    };
    (@[$($let:tt)*] [$(($(#[$how:meta])? $key:ident: $type:ty = $value:expr))*] $(,)?) => {{
        #[allow(non_camel_case_types, clippy::too_many_arguments)]
        fn object<$($key: ::serde::Serialize),*>($($key: $type),*) -> impl ::serde::Serialize {
            #[derive(::serde::Serialize)]
            struct Object<$($key),*> {
                $($(#[$how])? $key: $type,)*
            }
            Object { $($key),* }
        }
        $($let)*
        object($($value),*)
    }};
    ($($all:tt)+) => { $crate::object!(@[] [] $($all)+,) };
}
