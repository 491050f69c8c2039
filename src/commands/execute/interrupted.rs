//! Notes on runs cut short by Ctrl-C.

/// The note about a run with `measured` steps of `planned`, and without a requested comparison if
/// `lacks_check`; `None` if it is whole.
pub fn one(measured: usize, planned: u32, lacks_check: bool) -> Option<String> {
    let is_cut = measured < planned as usize;
    let steps = format!("cut short after {measured} of {planned} measured steps");
    match (is_cut, lacks_check) {
        (false, false) => None,
        (true, false) => Some(steps),
        (true, true) => {
            Some(format!("{steps}, and not compared with the reference, which trains them all"))
        }
        (false, true) => Some("cut short before it was compared with the reference".to_owned()),
    }
}

/// The note about all runs: `ran` schedules have measured steps, and those that are `left_out` none.
pub fn all(ran: usize, left_out: &[String]) -> String {
    let mut names: Vec<&str> = left_out.iter().map(String::as_str).collect();
    names.dedup();
    match (ran, &names[..]) {
        (0, _) => "interrupted: no step was measured by then".to_owned(),
        (_, []) => "interrupted: the steps that had been measured by then".to_owned(),
        (_, names) => format!(
            "interrupted: the steps that had been measured by then, and none of {}",
            names.join(", ")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(one(20, 20, false), None);
        let said = |measured, lacks_check| one(measured, 20, lacks_check).unwrap_or_default();
        assert_eq!(said(7, false), "cut short after 7 of 20 measured steps");
        assert!(said(7, true).contains("7 of 20") && said(7, true).contains("reference"));
        assert!(said(20, true).contains("reference"));
        let names = ["zb-h1", "zb-v"].map(str::to_owned);
        assert!(all(0, &names).contains("no step was measured"));
        assert!(all(1, &names).ends_with("none of zb-h1, zb-v"));
        assert!(all(2, &[]).ends_with("measured by then"));
    }
}
