//! Norm and AdamW.

use super::*;

#[test]
fn the_norm_finds_what_is_no_number() {
    let sums = draw(10_000, 1);
    let (squares, is_bad) = Cpu::new().norm(&sums).unwrap();
    assert!((squares / dot(&sums, &sums) - 1.0).abs() < 1e-12 && !is_bad);
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut sums = sums.clone();
        sums[9_999] = bad;
        assert!(Cpu::new().norm(&sums).unwrap().1);
    }
    // The square of this is beyond f32.
    let (squares, is_bad) = Cpu::new().norm(&vec![1e30f32; 2]).unwrap();
    assert!((squares / 2e60 - 1.0).abs() < 1e-6 && !is_bad);
}

fn moments<T: Real>(weight: f64, first: f64, second: f64) -> Moments<Vec<T>, Vec<T>> {
    let one = |x: f64| vector(&[x]);
    Moments { weights: one(weight), master: one(weight), first: one(first), second: one(second) }
}

#[test]
fn adamw_by_hand() {
    let rule =
        AdamW { learning_rate: 0.1, beta1: 0.5, beta2: 0.75, epsilon: 0.5, weight_decay: 0.2 };
    let mut state = moments::<f64>(1.0, 2.0, 4.0);
    // g = 2; m = 0.5 * 2 + 0.5 * 2 = 2, without bias 2 / 0.75; v = 0.75 * 4 + 0.25 * 4 = 4, without
    // bias 4 / 0.4375; w = 1 - 0.1 (m / (sqrt(v) + 0.5) + 0.2).
    Cpu::new().adamw(rule, 2, 0.5, &vec![4.0], &mut state).unwrap();
    let change = (2.0 / 0.75) / ((4.0f64 / 0.4375).sqrt() + 0.5) + 0.2;
    assert_near(&state.master, &[1.0 - 0.1 * change], 1e-15);
    assert_near(&state.first, &[2.0], 1e-15);
    assert_near(&state.second, &[4.0], 1e-15);
    assert_eq!(state.weights, state.master);
}

fn undone<T: Real>(tolerance: f64) {
    let (mut cpu, rule) = (Cpu::<T>::new(), AdamW::default());
    let start = draw(100, 1);
    let mut state = Moments {
        weights: vector(&start),
        master: vector(&start),
        first: vec![T::zero(); 100],
        second: vec![T::zero(); 100],
    };
    for step in 1..=3 {
        let gradients = vector(&draw(100, 10 + u64::from(step)));
        let before = cpu.copy_state(&state).unwrap();
        cpu.adamw(rule, step, 0.7, &gradients, &mut state).unwrap();
        assert_ne!(state.master, before.master);
        let mut back = cpu.copy_state(&state).unwrap();
        cpu.adamw_undo(rule, step, 0.7, &gradients, &mut back).unwrap();
        assert_near(&back.master, &read(&before.master), tolerance);
        assert_near(&back.first, &read(&before.first), tolerance);
        assert_near(&back.second, &read(&before.second), tolerance);
        assert_eq!(back.weights, back.master);
    }
}

#[test]
fn an_update_taken_back_leaves_what_was() {
    undone::<f64>(1e-12);
    undone::<f32>(2e-6);
}
