//! The attributes of spans and resources that are read: a list of keys and typed values, or an object.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::Value;

use super::{Process, Sizes};
use crate::error::{Place, TraceError};
use crate::events::number;
use crate::numbers::count;

/// The most characters of the name of a run.
const MAX_NAME: usize = 128;

/// The attributes that are read, where they are there.
#[derive(Default)]
pub(super) struct Attributes {
    rank: Option<i64>,
    world: Option<i64>,
    stages: Option<i64>,
    replicas: Option<i64>,
    run: Option<String>,
    has_gpu: bool,
    pub(super) iteration: Option<i64>,
    pub(super) microbatches: Option<i64>,
}

impl Attributes {
    fn add(&mut self, key: &str, value: &Value) {
        match key {
            "dl.rank" => self.rank = whole(value),
            "dl.world_size" => self.world = whole(value),
            "dl.pipeline_parallel.size" => self.stages = whole(value),
            "dl.data_parallel.size" => self.replicas = whole(value),
            "nemo.run.id" => self.run = text(value),
            "dl.gpu.name" => self.has_gpu = true,
            "host.gpu.count" => self.has_gpu |= whole(value).is_some_and(|count| count > 0),
            "megatron.iteration" => self.iteration = whole(value),
            "num_microbatches" | "megatron.num_microbatches" => self.microbatches = whole(value),
            _ => {}
        }
    }

    /// An attribute that a span at `place` needs.
    pub(super) fn needed<T: TryFrom<i64>>(
        &self,
        value: Option<i64>,
        column: &'static str,
        place: Place,
    ) -> Result<T, TraceError> {
        count(value.ok_or(TraceError::Absent { place, column })?, place, column)
    }

    /// The rank and its process, of whose resource these are the attributes.
    pub(super) fn process(&self) -> Result<(u32, Process), TraceError> {
        let of = |value, column| self.needed(value, column, Place::Resource);
        let sizes = Sizes {
            world: of(self.world, "dl.world_size")?,
            stages: of(self.stages, "dl.pipeline_parallel.size")?,
            replicas: of(self.replicas, "dl.data_parallel.size")?,
        };
        let process =
            Process { sizes, run: self.run.clone().unwrap_or_default(), has_gpu: self.has_gpu };
        Ok((self.needed(self.rank, "dl.rank", Place::Resource)?, process))
    }
}

/// A whole number as it is, or typed as OTLP types it.
fn whole(value: &Value) -> Option<i64> {
    number(Some(value.get("intValue").unwrap_or(value)))
}

fn text(value: &Value) -> Option<String> {
    let value = value.get("stringValue").unwrap_or(value);
    Some(value.as_str()?.chars().take(MAX_NAME).collect())
}

impl<'de> Deserialize<'de> for Attributes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Given)
    }
}

/// Takes either form.
struct Given;

#[derive(Deserialize)]
struct Pair<'a> {
    #[serde(borrow)]
    key: Cow<'a, str>,
    value: Option<Value>,
}

impl<'de> Visitor<'de> for Given {
    type Value = Attributes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("attributes")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Attributes, E> {
        Ok(Attributes::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut pairs: A) -> Result<Attributes, A::Error> {
        let mut all = Attributes::default();
        while let Some(Pair { key, value }) = pairs.next_element()? {
            all.add(&key, &value.unwrap_or_default());
        }
        Ok(all)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Attributes, A::Error> {
        let mut all = Attributes::default();
        while let Some(key) = pairs.next_key::<Cow<'de, str>>()? {
            all.add(&key, &pairs.next_value()?);
        }
        Ok(all)
    }
}
