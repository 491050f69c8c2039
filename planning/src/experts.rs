//! `imbalance` and `capacity-factor`: what the experts of a device have to do.

use std::path::Path;
use std::sync::Arc;

use plan::{Capacity, Cluster, Experts, Imbalance, Popularity, Routing, RoutingError, Transformer};
use question::diagnostic::Diagnostic;
use question::values::imbalance::ImbalanceKey;

use crate::document::TrainingDocument;
use crate::framework::Framework;
use crate::reader::Reader;

/// The largest load of the fullest device of an expert group, over its load if all experts were chosen alike.
const MOST_IMBALANCE: f64 = 1e4;
/// The largest file of counts.
const MAX_FILE: u64 = 16 << 20;
/// The most counts of a file.
const MAX_COUNTS: usize = 1 << 20;

impl TrainingDocument {
    /// The same without the keys that are about experts.
    pub fn without_experts(self) -> Self {
        Self {
            dispatcher: None,
            overlap_experts: None,
            fused_experts: None,
            imbalance: None,
            capacity_factor: None,
            pad_to_capacity: None,
            ..self
        }
    }
}

impl Reader<'_> {
    /// The load imbalance of experts in set-ups of `model`.
    pub(crate) fn imbalance(
        &self,
        model: &Transformer,
        framework: Framework,
        clusters: &[Cluster],
    ) -> Result<Imbalance, Diagnostic> {
        self.check_experts(model, clusters)?;
        let imbalance = &self.document.training.imbalance;
        let capacity = self.capacity(framework)?;
        let popularity = match (imbalance, capacity) {
            (None, None) => return Ok(Imbalance::default()),
            (Some(ImbalanceKey::Factor(factor)), None) => return self.factor(*factor),
            (Some(ImbalanceKey::Factor(factor)), Some(_)) => {
                let message = format!(
                    "imbalance is {factor}, but what a capacity drops depends on how experts are chosen"
                );
                let cure = "write imbalance = \"zipf:0.5\", lognormal:SIGMA or file:FILE, or take one of \
                            imbalance and capacity-factor out";
                return Err(self.wrong(IMBALANCE, message).with_help(cure));
            }
            (None, Some(_)) => Popularity::Zipf(0.0),
            (Some(ImbalanceKey::Zipf(exponent)), _) => Popularity::Zipf(*exponent),
            (Some(ImbalanceKey::LogNormal(sigma)), _) => Popularity::LogNormal(*sigma),
            (Some(ImbalanceKey::File(file)), _) => {
                let experts = self.routed(model, IMBALANCE)?;
                Popularity::Counted(self.counts(&self.folder.join(file), experts)?)
            }
        };
        let experts = self.routed(model, IMBALANCE)?;
        let seed = self.document.noise.seed.unwrap_or(0);
        let routing = Routing::new(popularity, capacity, experts, seed);
        routing.map(|routing| Imbalance::Drawn(Arc::new(routing))).map_err(|error| {
            let message = error.to_string();
            match error {
                RoutingError::Capacity { .. } => {
                    let cure = "write a number such as 1.25, or take capacity-factor out: then no token is \
                                dropped";
                    self.wrong(CAPACITY, format!("capacity-factor is {message}")).with_help(cure)
                }
                RoutingError::Spread(_) => {
                    self.wrong(IMBALANCE, message).with_help("write a number such as zipf:0.5")
                }
                _ => {
                    let cure = "give the file a count for each expert of a layer, a layer to a line";
                    self.wrong(IMBALANCE, message).with_help(cure)
                }
            }
        })
    }

    /// Refuses keys about experts of which nothing depends: where `model` has none, or no machine has a rate for them.
    fn check_experts(&self, model: &Transformer, clusters: &[Cluster]) -> Result<(), Diagnostic> {
        let training = &self.document.training;
        if let Some(key) = training.given().find(|key| OF_EXPERTS.contains(key)) {
            self.routed(model, &format!("training.{key}"))?;
        }
        let setup = self.document.setup.as_ref();
        if setup.is_some_and(|setup| setup.expert_tensor.is_some()) {
            self.routed(model, "setup.expert-tensor")?;
        }
        let mut machines = clusters.iter().flat_map(|cluster| &cluster.parts);
        if training.fused_experts.is_some()
            && machines.all(|(machine, _)| machine.efficiency.fused_experts >= 1.0)
        {
            let message = "fused-experts changes nothing: what fused kernels save is not known of these machines";
            let cure =
                "take fused-experts out, or give the machine's file the efficiency fused-experts";
            return Err(self.wrong("training.fused-experts", message.to_owned()).with_help(cure));
        }
        Ok(())
    }

    fn factor(&self, factor: f64) -> Result<Imbalance, Diagnostic> {
        if (1.0..=MOST_IMBALANCE).contains(&factor) {
            return Ok(Imbalance::Factor(factor));
        }
        let message = format!("imbalance is {factor}: from 1, all experts alike, to 10000");
        Err(self.wrong(IMBALANCE, message))
    }

    /// The capacity of experts, if one is given.
    fn capacity(&self, framework: Framework) -> Result<Option<Capacity>, Diagnostic> {
        let training = &self.document.training;
        let padded = training.pad_to_capacity.unwrap_or(false);
        let Some(factor) = training.capacity_factor else {
            if padded {
                let message =
                    "pad-to-capacity fills experts up to their capacity, and they have none";
                let cure = "give capacity-factor, or take pad-to-capacity out";
                return Err(self.wrong(PADDED, message.to_owned()).with_help(cure));
            }
            return Ok(None);
        };
        if framework == Framework::Torchtitan {
            let message = "torchtitan drops no tokens: it has no capacity of experts".to_owned();
            let cure = "take capacity-factor out, or write framework = \"megatron\"";
            return Err(self.wrong(CAPACITY, message).with_help(cure));
        }
        let (dispatcher, sends_once) = self.dispatcher()?;
        if padded && sends_once {
            let message = format!("{dispatcher} sends tokens alone, and pads no experts");
            let cure = "write dispatcher = \"alltoall\", or take pad-to-capacity out";
            return Err(self.wrong(PADDED, message).with_help(cure));
        }
        Ok(Some(Capacity { factor, padded }))
    }

    /// The experts of `model`, which `key` is about.
    fn routed(&self, model: &Transformer, key: &str) -> Result<Experts, Diagnostic> {
        model.experts.ok_or_else(|| {
            let name = key.rsplit('.').next().unwrap_or(key);
            let message = format!("{name} is about experts, and the model has none");
            self.wrong(key, message).with_help(format!("take {name} out"))
        })
    }

    /// The counts of the file `path`: a list of all experts to a line, or a number to a line.
    fn counts(&self, path: &Path, experts: Experts) -> Result<Vec<Vec<f64>>, Diagnostic> {
        let text = self.context.read_text(path, MAX_FILE)?;
        let fail = |cause: String| Diagnostic::unreadable(path, &cause);
        let (mut lists, mut all) = (Vec::new(), 0);
        for (number, line) in text.lines().enumerate() {
            let content = line.split('#').next().unwrap_or("");
            let words = content.split([',', ' ', '\t', '\r']).filter(|word| !word.is_empty());
            let list: Result<Vec<f64>, Diagnostic> = words
                .map(|word| {
                    let count = word.parse::<f64>().ok().filter(|count| count.is_finite());
                    let word: String = word.chars().take(40).collect();
                    let at = number + 1;
                    count.ok_or_else(|| {
                        fail(format!("line {at}: `{word}` is not a count of tokens"))
                    })
                })
                .collect();
            let list = list?;
            all += list.len();
            if all > MAX_COUNTS {
                return Err(fail(format!("it has more than {MAX_COUNTS} counts")));
            }
            lists.extend((!list.is_empty()).then_some(list));
        }
        if experts.count > 1 && lists.iter().all(|list| list.len() == 1) {
            let each = usize::try_from(experts.count).unwrap_or(usize::MAX);
            let single: Vec<f64> = lists.concat();
            lists = single.chunks(each).map(<[f64]>::to_vec).collect();
        }
        Ok(lists)
    }
}

/// The keys of `[training]` that say nothing of a model without experts.
const OF_EXPERTS: [&str; 6] = [
    "dispatcher",
    "overlap-experts",
    "fused-experts",
    "imbalance",
    "capacity-factor",
    "pad-to-capacity",
];
const IMBALANCE: &str = "training.imbalance";
const CAPACITY: &str = "training.capacity-factor";
const PADDED: &str = "training.pad-to-capacity";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_is_read_as_it_is_written() {
        for (text, key) in [
            ("1.08", ImbalanceKey::Factor(1.08)),
            ("zipf:0.5", ImbalanceKey::Zipf(0.5)),
            ("lognormal:0.3", ImbalanceKey::LogNormal(0.3)),
            ("file:counts.csv", ImbalanceKey::File("counts.csv".into())),
        ] {
            assert_eq!(text.parse::<ImbalanceKey>().unwrap(), key);
            assert_eq!(key.to_string(), text);
        }
        for wrong in ["", "zipf", "zipf:", "zipf:x", "file:", "pareto:1", "1.0.0"] {
            let error = wrong.parse::<ImbalanceKey>().unwrap_err().to_string();
            assert!(error.contains("zipf:EXPONENT"), "{error}");
        }
    }
}
