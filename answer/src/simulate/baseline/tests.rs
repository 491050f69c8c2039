use std::path::Path;

use super::*;

fn named(schedule: &str, span: u64, bubble_rate: f64) -> (Name, Figures) {
    let name = Name { setting: None, schedule: schedule.to_owned() };
    let peak = Some(Bytes(1 << 30));
    (name, Figures { span: Nanos(span), mean_span: None, bubble_rate, peak, in_flight: 4 })
}

fn growth(before: &[(Name, Figures)], now: &[(Name, Figures)], tolerance: &str) -> Growth {
    let baseline = Baseline { schedules: before.to_vec() };
    baseline.held_against_figures(now.iter().cloned(), tolerance.parse().unwrap())
}

fn changes(growth: &Growth) -> Vec<(&str, Change)> {
    growth.schedules.iter().map(|row| (&row.schedule[..], row.change)).collect()
}

#[test]
fn a_nanosecond_is_growth_without_a_tolerance_and_none_within_it() {
    let before = [named("1f1b", 1_000_000, 0.25)];
    let now = [named("1f1b", 1_000_001, 0.25)];
    let grown = growth(&before, &now, "0%");
    assert!(grown.failed);
    assert_eq!(
        grown.fault().as_deref(),
        Some("worse than the baseline by more than 0.00 %: 1f1b (span grew)")
    );
    assert!(!growth(&before, &now, "0.1%").failed);
    assert!(!growth(&now, &before, "0%").failed);
    let much = [named("1f1b", 1_001_001, 0.25)];
    assert!(growth(&before, &much, "0.1%").failed);
}

#[test]
fn a_bubble_grows_by_points() {
    let before = [named("zb-2p", 1000, 0.0029)];
    assert!(!growth(&before, &[named("zb-2p", 1000, 0.0038)], "0.1%").failed);
    assert!(growth(&before, &[named("zb-2p", 1000, 0.0040)], "0.1%").failed);
}

#[test]
fn a_schedule_that_is_gone_fails_and_a_new_one_does_not() {
    let [first, second] = [named("1f1b", 1000, 0.25), named("zb-h1", 900, 0.125)];
    let gone = growth(&[first.clone(), second.clone()], std::slice::from_ref(&second), "5%");
    assert_eq!(changes(&gone), [("zb-h1", Change::Kept), ("1f1b", Change::Gone)]);
    assert!(gone.failed);
    let new = growth(std::slice::from_ref(&second), &[first, second.clone()], "5%");
    assert_eq!(changes(&new), [("1f1b", Change::New), ("zb-h1", Change::Kept)]);
    assert!(!new.failed && new.fault().is_none());
}

#[test]
fn of_equal_names_the_first_is_held_against_the_first() {
    let [short, long] = [named("1f1b", 1000, 0.25), named("1f1b", 2000, 0.25)];
    assert!(!growth(&[short.clone(), long.clone()], &[short.clone(), long.clone()], "0%").failed);
    let swapped = growth(&[short.clone(), long.clone()], &[long, short], "0%");
    assert_eq!(changes(&swapped), [("1f1b", Change::Grew), ("1f1b", Change::Kept)]);
}

#[test]
fn memory_is_compared_where_both_know_it() {
    let with = named("1f1b", 1000, 0.25);
    let mut without = with.clone();
    without.1.peak = None;
    let names = |growth: &Growth| -> Vec<&str> {
        growth.schedules[0].figures.iter().map(|one| one.figure).collect()
    };
    let one = growth(std::slice::from_ref(&without), std::slice::from_ref(&with), "0%");
    assert_eq!(names(&one), ["span_ns", "bubble_rate", "peak_in_flight"]);
    let mut larger = with.clone();
    larger.1.peak = Some(Bytes((1 << 30) + 1));
    assert!(growth(std::slice::from_ref(&with), std::slice::from_ref(&larger), "0%").failed);
}

#[test]
fn tolerances_are_percentages() {
    assert_eq!("0.1%".parse(), Ok(Tolerance(0.001)));
    assert_eq!("2 %".parse(), Ok(Tolerance(0.02)));
    for bad in ["", "%", "0.1", "-1%", "NaN%", "inf%", "one%"] {
        assert!(bad.parse::<Tolerance>().is_err(), "{bad}");
    }
}

#[test]
fn a_file_that_is_no_answer_is_refused() {
    let wrong = |text: &str| stored::parse(Path::new("old.json"), text).unwrap_err();
    for text in ["", "{}", "[]", "{\"results\": 1}", "{\"results\": [{}]}", "{\"results\": [null]}"]
    {
        let error = wrong(text);
        assert!(error.message.contains("old.json is"), "{}", error.message);
    }
    assert!(wrong("{\"results\": []}").message.contains("it has no results"));
    let row = r#"{"schedule":"1f1b","span_ns":1,"bubble_rate":0.5,"peak_in_flight":[1]}"#;
    assert!(
        wrong(&format!("{{\"results\":[{row}],\"interrupted\":true}}")).message.contains("cut")
    );
    let known = stored::parse(Path::new("old.json"), &format!("{{\"results\":[{row}]}}")).unwrap();
    assert_eq!(known[0].1.span, Nanos(1));
    let error = wrong("stages = 4\nschedule = [\"1f1b\"]\n");
    assert!(error.message.contains("a scenario"), "{}", error.message);
}
