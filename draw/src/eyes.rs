//! How colours look: to all eyes, and beside each other.

use plotters::style::RGBColor;

/// A colour as eyes see it, as shares of linear red, green and blue.
pub(super) type Linear = [f64; 3];

/// How colours look without the cones for long, medium and short waves, of linear colours
/// (Machado, Oliveira and Fernandes 2009, severity 1).
pub(super) const BLIND: [[Linear; 3]; 3] = [
    [
        [0.152_286, 1.052_583, -0.204_868],
        [0.114_503, 0.786_281, 0.099_216],
        [-0.003_882, -0.048_116, 1.051_998],
    ],
    [
        [0.367_322, 0.860_646, -0.227_968],
        [0.280_085, 0.672_501, 0.047_413],
        [-0.011_820, 0.042_940, 0.968_881],
    ],
    [
        [1.255_528, -0.076_749, -0.178_779],
        [-0.078_411, 0.930_809, 0.147_602],
        [0.004_733, 0.691_367, 0.303_900],
    ],
];
/// How they look to those who see all of them.
pub(super) const SEEING: [Linear; 3] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

/// A colour as `eyes` see it.
pub(super) fn seen(eyes: [Linear; 3], RGBColor(r, g, b): RGBColor) -> Linear {
    let linear = |part: u8| {
        let part = f64::from(part) / 255.0;
        if part <= 0.040_45 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    };
    let own = [r, g, b].map(linear);
    let dot = |row: Linear| row.iter().zip(own).map(|(a, b)| a * b).sum::<f64>();
    eyes.map(|row| dot(row).clamp(0.0, 1.0))
}

/// How light it is, from 0 to 1.
pub(super) fn luminance(seen: Linear) -> f64 {
    0.2126 * seen[0] + 0.7152 * seen[1] + 0.0722 * seen[2]
}

/// The contrast of WCAG 2, from 1 to 21.
pub(super) fn contrast(a: Linear, b: Linear) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// The distance of two colours in CIELAB under daylight: from about 2 on it is seen side by side.
pub(super) fn distance(a: Linear, b: Linear) -> f64 {
    let lab = |seen: Linear| {
        let [r, g, b] = seen;
        let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.950_47);
        let y = f(luminance(seen));
        let z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.088_83);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    };
    lab(a).iter().zip(lab(b)).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}
