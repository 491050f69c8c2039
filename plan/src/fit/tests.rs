use super::*;

/// Steps that take a sum of work over rates: work by row, a column for each constant.
struct Sums(Vec<[f64; 3]>);

impl Steps for Sums {
    fn seconds(&self, row: usize, values: &[f64]) -> Option<f64> {
        Some(self.0[row].iter().zip(values).map(|(work, rate)| work / rate).sum())
    }

    fn depends(&self, row: usize, parameter: usize) -> bool {
        self.0[row][parameter] != 0.0
    }
}

fn parameters(priors: [f64; 3], sigma: f64) -> Vec<Parameter> {
    let named = |(name, prior): (&str, f64)| Parameter { name: name.to_owned(), prior, sigma };
    ["matmul", "memory", "link"].into_iter().zip(priors).map(named).collect()
}

/// Rows whose work on the third constant is `third` times that on the others.
fn rows(third: f64) -> Sums {
    let mix = |row: u32| {
        let part = f64::from(row % 7) / 7.0;
        [1.0 + 5.0 * part, 3.0 - 2.5 * part, third * f64::from(row % 3)]
    };
    Sums((0..40).map(mix).collect())
}

fn measured(steps: &Sums, values: &[f64]) -> Vec<Observation> {
    let one = |row: usize| Observation {
        measured: steps.seconds(row, values).unwrap(),
        configuration: row / 2,
    };
    (0..steps.0.len()).map(one).collect()
}

#[test]
fn known_constants_are_found_again() {
    let (steps, truth) = (rows(1.0), [0.7, 2.0, 0.4]);
    let (observations, parameters) = (measured(&steps, &truth), parameters([0.5, 1.0, 0.8], 2.0));
    let fitted = Fit::new(&parameters, &observations, &steps).unwrap().to_all().unwrap();
    for (value, truth) in fitted.values.iter().zip(truth) {
        assert!((value / truth - 1.0).abs() < 0.01, "{value} {truth}");
    }
}

#[test]
fn outliers_hardly_move_constants() {
    let (steps, truth) = (rows(1.0), [0.7, 2.0, 0.4]);
    let mut observations = measured(&steps, &truth);
    observations[5].measured *= 3.0;
    let parameters = parameters([0.5, 1.0, 0.8], 2.0);
    let fitted = Fit::new(&parameters, &observations, &steps).unwrap().to_all().unwrap();
    for (value, truth) in fitted.values.iter().zip(truth) {
        assert!((value / truth - 1.0).abs() < 0.03, "{value} {truth}");
    }
}

#[test]
fn constants_stay_at_their_priors_where_no_row_speaks() {
    let (steps, truth) = (rows(0.0), [0.7, 2.0, 0.4]);
    let (observations, parameters) = (measured(&steps, &truth), parameters([0.5, 1.0, 0.8], 0.5));
    let fit = Fit::new(&parameters, &observations, &steps).unwrap();
    let fitted = fit.to_all().unwrap();
    assert!((fitted.values[2] - 0.8).abs() < 1e-12, "{}", fitted.values[2]);
    assert!((fitted.values[0] - 0.7).abs() < 0.02, "{}", fitted.values[0]);
    let none = fit.to(&[], &fit.start(&fit.priors()).unwrap()).unwrap();
    for (value, prior) in none.values.iter().zip([0.5, 1.0, 0.8]) {
        assert!((value - prior).abs() < 1e-12);
    }
}

#[test]
fn a_narrow_prior_holds_a_constant() {
    let (steps, truth) = (rows(1.0), [0.7, 2.0, 0.4]);
    let observations = measured(&steps, &truth);
    let at = |sigma: f64| {
        let parameters = parameters([0.5, 2.0, 0.4], sigma);
        Fit::new(&parameters, &observations, &steps).unwrap().to_all().unwrap().values[0]
    };
    let [narrow, middle, wide] = [0.001, 0.02, 1.0].map(at);
    assert!((narrow - 0.5).abs() < 0.01 && narrow < middle && middle < wide, "{narrow} {middle}");
}

#[test]
fn repeats_of_a_configuration_count_as_the_root_of_their_number() {
    // One constant, one row of one configuration, sixteen of another that take half as long again.
    let steps = Sums(vec![[1.0, 0.0, 0.0]; 17]);
    let observation = |row: usize| Observation {
        measured: if row == 0 { 1.0 } else { 1.001 },
        configuration: usize::from(row > 0),
    };
    let observations: Vec<Observation> = (0..17).map(observation).collect();
    let parameters = parameters([1.0, 1.0, 1.0], 1e3);
    let fitted = Fit::new(&parameters, &observations, &steps).unwrap().to_all().unwrap();
    // Errors so small count as squares: the mean with weights of 1 and 16 / 4.
    let expected = 1.0 / (1.0 + 0.001 * 4.0 / 5.0);
    assert!((fitted.values[0] - expected).abs() < 2e-6, "{}", fitted.values[0]);
}

#[test]
fn the_same_bytes_on_any_number_of_threads() {
    let (steps, truth) = (rows(1.0), [0.7, 2.0, 0.4]);
    let mut observations = measured(&steps, &truth);
    for (row, one) in observations.iter_mut().enumerate() {
        one.measured *= 1.0 + 0.01 * f64::from(u32::try_from(row * 7 % 11).unwrap());
    }
    let parameters = parameters([0.5, 1.0, 0.8], 0.3);
    let on = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let fit = Fit::new(&parameters, &observations, &steps).unwrap();
            let group = assign_folds(&(0..20).flat_map(|one| [one; 2]).collect::<Vec<_>>(), 10, 3);
            fit.without_each(&group, &fit.start(&fit.priors()).unwrap()).unwrap()
        })
    };
    assert_eq!(on(1), on(3));
}

#[test]
fn what_is_left_out_has_no_part() {
    let (steps, truth) = (rows(1.0), [0.7, 2.0, 0.4]);
    let mut observations = measured(&steps, &truth);
    // A configuration that is measured wrong.
    observations[0].measured *= 1.5;
    observations[1].measured *= 1.5;
    let parameters = parameters([0.7, 2.0, 0.4], 1e3);
    let fit = Fit::new(&parameters, &observations, &steps).unwrap();
    let group: Vec<usize> = (0..40).map(|row| usize::from(row > 1)).collect();
    let without = fit.without_each(&group, &fit.start(&fit.priors()).unwrap()).unwrap();
    for (value, truth) in without[0].values.iter().zip(truth) {
        assert!((value / truth - 1.0).abs() < 1e-6, "{value} {truth}");
    }
    assert_ne!(without[0].values, fit.to_all().unwrap().values);
}

#[test]
fn what_cannot_be_fitted_is_an_error() {
    let steps = rows(1.0);
    let observations = measured(&steps, &[0.7, 2.0, 0.4]);
    let wrong = parameters([0.5, 0.0, 0.8], 1.0);
    let fit = Fit::new(&wrong, &observations, &steps);
    assert_eq!(fit.err(), Some(FitError::Prior("memory".to_owned())));
    let mut never = observations.clone();
    never[3].measured = f64::NAN;
    let parameters = parameters([0.5, 1.0, 0.8], 1.0);
    assert_eq!(Fit::new(&parameters, &never, &steps).err(), Some(FitError::Measured(3)));
    struct Nothing;
    impl Steps for Nothing {
        fn seconds(&self, _: usize, _: &[f64]) -> Option<f64> {
            None
        }
    }
    let fit = Fit::new(&parameters, &observations, &Nothing).unwrap();
    assert_eq!(fit.to_all(), Err(FitError::Predicted(0)));
}
