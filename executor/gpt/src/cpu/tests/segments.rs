//! The kernels of segments against those of whole sequences.

use crate::{Cpu, Ops, SegmentKernels};

#[test]
fn segments_are_put_together_and_taken_apart_again() {
    let mut cpu = Cpu::<f64>::new();
    // Two heads of two rows of three numbers in each of three segments.
    let number = |segment: usize, at: usize| (100 * segment + at) as f64;
    let parts: Vec<Vec<f64>> =
        (0..3).map(|segment| (0..12).map(|at| number(segment, at)).collect()).collect();
    let mut all = vec![f64::NAN; 36];
    cpu.join_segments(2, 6, &parts.iter().collect::<Vec<_>>(), &mut all).unwrap();
    assert_eq!(all[..7], [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 100.0]);
    assert_eq!(all[17..19], [205.0, 6.0]);
    for (index, part) in parts.iter().enumerate() {
        let mut again = vec![f64::NAN; 12];
        cpu.segment_of(2, 6, index, 3, &all, &mut again).unwrap();
        assert_eq!(again, *part);
    }
}

#[test]
fn the_last_rows_of_a_sequence_have_the_softmax_of_all() {
    let mut cpu = Cpu::<f64>::new();
    let (heads, n, rows) = (2, 6, 2);
    let scores: Vec<f64> = (0..heads * n * n).map(|at| ((at * 7) % 11) as f64 / 3.0).collect();
    let last = |all: &[f64]| -> Vec<f64> {
        all.chunks(n * n).flat_map(|head| &head[(n - rows) * n..]).copied().collect()
    };
    let (mut all, mut behind) = (scores.clone(), last(&scores));
    cpu.causal_softmax(heads, n, &mut all).unwrap();
    cpu.causal_softmax_behind(heads, rows, n, &mut behind).unwrap();
    assert_eq!(behind, last(&all));
    assert!(behind[n - 1] == 0.0 && behind[2 * n - 1] > 0.0);
    let (mut d_all, mut d_behind) = (scores.clone(), last(&scores));
    cpu.softmax_backward(heads, n, 0.5, &all, &mut d_all).unwrap();
    cpu.softmax_backward_behind(heads, rows, n, 0.5, &behind, &mut d_behind).unwrap();
    assert_eq!(d_behind, last(&d_all));
}
