//! Keys of a question that flags give: a model with a few of them is a question.

use std::path::{Path, PathBuf};

use question::{Context, Diagnostic};

use crate::document::{ClusterDocument, Document, ModelDocument};
use crate::models;
use crate::samples::NAMED_SEQUENCE;

/// Keys of a question, which override those of its file.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct PlanFlags {
    /// Tokens to train on.
    pub tokens: Option<f64>,
    /// Samples of a global batch.
    pub batch: Option<u64>,
    /// Tokens of a sample.
    pub sequence: Option<u64>,
    /// Machines to choose from, by name or file.
    pub machines: Vec<String>,
    /// Numbers of devices to choose from, of each machine.
    pub devices: Vec<u64>,
    /// The file of the measured network.
    pub network: Option<PathBuf>,
}

impl PlanFlags {
    /// Whether no key is given.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether `path` is the name of a model that is built in, and of no file.
    #[must_use]
    pub fn is_named(context: &Context<'_>, path: &Path) -> bool {
        models::named(&path.to_string_lossy()).is_some() && !context.exists(path)
    }

    /// Whether `text` of the file at `path` is a `config.json`.
    pub(crate) fn is_config(path: &Path, text: &str) -> bool {
        let is_json = path.extension().is_some_and(|end| end.eq_ignore_ascii_case("json"));
        is_json && ["\"model_type\"", "\"architectures\""].iter().any(|key| text.contains(key))
    }

    /// The question of the model at `path`.
    pub(crate) fn of_model(
        &self,
        context: &Context<'_>,
        path: &Path,
    ) -> Result<Document, Diagnostic> {
        let missing = [
            ("--tokens", self.tokens.is_none()),
            ("--batch", self.batch.is_none()),
            ("--machine", self.machines.is_empty()),
            ("--devices", self.devices.is_empty()),
        ];
        let missing: Vec<&str> =
            missing.into_iter().filter(|(_, is)| *is).map(|(flag, _)| flag).collect();
        let name = path.display().to_string();
        if !missing.is_empty() {
            let flags = missing.join(", ");
            let message = format!("{name} is a model, and a plan also needs {flags}");
            let help = format!(
                "such as `debubble plan {name} --tokens 1e12 --batch 1024 --machine h100 --devices 512`"
            );
            return Err(Diagnostic::new(message).with_help(help));
        }
        let named = models::named(&name).filter(|_| !context.exists(path));
        let sequence = named.as_ref().map(|_| NAMED_SEQUENCE);
        let model =
            named.map_or_else(|| ModelDocument::File(path.to_owned()), ModelDocument::Sizes);
        let title = Some(name);
        Ok(self.over(Document { title, sequence, ..Document::of_model(model) }))
    }

    /// `document` with the keys that are given.
    #[must_use]
    pub fn over(&self, document: Document) -> Document {
        let clusters = match (&self.machines[..], &self.devices[..]) {
            ([], []) => document.cluster,
            ([], devices) => {
                let own = document.cluster.into_iter();
                let devices = Some(devices.to_vec());
                own.map(|one| ClusterDocument { devices: devices.clone(), ..one }).collect()
            }
            (machines, devices) => {
                let own = document.cluster.iter().find_map(|one| one.devices.clone());
                let devices = if devices.is_empty() { own } else { Some(devices.to_vec()) };
                let cluster = |machine: &String| ClusterDocument {
                    machine: Some(machine.clone()),
                    devices: devices.clone(),
                    parts: None,
                    profile: None,
                    network: None,
                    price: None,
                };
                machines.iter().map(cluster).collect()
            }
        };
        // A flag goes over the keys of clusters, too.
        let clusters = clusters.into_iter().map(|one: ClusterDocument| ClusterDocument {
            network: one.network.filter(|_| self.network.is_none()),
            ..one
        });
        Document {
            tokens: self.tokens.unwrap_or(document.tokens),
            batch: self.batch.unwrap_or(document.batch),
            sequence: self.sequence.or(document.sequence),
            cluster: clusters.collect(),
            network: self.network.clone().or(document.network),
            ..document
        }
    }
}
