//! The error of a value that a pass needs and that is not there.

use runtime::DeviceError;

pub(crate) fn not_at_hand(what: &str) -> DeviceError {
    DeviceError::NotAtHand { what: what.to_owned() }
}
