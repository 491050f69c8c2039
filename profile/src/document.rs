//! The file form of a profile: TOML, and nothing that does not add up.
//!
//! The samples are what counts. Medians, intervals, outliers, verdicts and fits stand beside them for
//! people: they may be left out, but not say something else.

use toml::Spanned;

use crate::error::{ProfileError, WRITTEN_BY, fail, unplaced};
use crate::form::{Document, First, ModelDocument, OptimizerDocument, PartDocument};
use crate::limits::MAX_BYTES;
use crate::model::Model;
use crate::profile::{Optimizer, Part, Profile};
use crate::quantities::{read_link, read_quantity, write_link, write_quantity};
use crate::quantity::Quantity;
use crate::shape::{Element, ModelShape};
use crate::statistics::Verdict;
use crate::trainer::{self, TrainerProfile};

/// The version of the file form.
pub const VERSION: u64 = 1;
/// A profile of either kind.
#[derive(Clone, PartialEq, Debug)]
pub enum AnyProfile {
    /// Of a machine and the parts of a transformer.
    Machine(Box<Profile>),
    /// Of a trainer and the chunks of its model.
    Trainer(Box<TrainerProfile>),
}

impl AnyProfile {
    /// Reads the file form of either kind.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        let first: Result<First, _> = toml::from_str(text);
        let Ok(First { version, kind }) = first else {
            return Profile::parse_body(text).map(|profile| Self::Machine(Box::new(profile)));
        };
        if *version.get_ref() != VERSION {
            let message = format!("version {}: this program reads {VERSION}", version.get_ref());
            return fail(version.span(), message);
        }
        match kind {
            None => Profile::parse_body(text).map(|profile| Self::Machine(Box::new(profile))),
            Some(kind) if kind.get_ref() == trainer::KIND => {
                TrainerProfile::parse(text).map(|profile| Self::Trainer(Box::new(profile)))
            }
            Some(kind) => {
                let message = format!("there are no profiles of kind `{}`", kind.get_ref());
                fail(kind.span(), message)
            }
        }
    }

    /// The profile of a machine, if it is one.
    #[must_use]
    pub fn machine(&self) -> Option<&Profile> {
        match self {
            Self::Machine(profile) => Some(profile),
            Self::Trainer(_) => None,
        }
    }

    /// The profile of a trainer, if it is one.
    #[must_use]
    pub fn trainer(&self) -> Option<&TrainerProfile> {
        match self {
            Self::Machine(_) => None,
            Self::Trainer(profile) => Some(profile),
        }
    }

    /// The quantities that cannot be relied on, by name.
    #[must_use]
    pub fn doubts(&self) -> Vec<(String, Verdict)> {
        match self {
            Self::Machine(profile) => profile.doubts(),
            Self::Trainer(profile) => profile.doubts(),
        }
    }
}

impl Profile {
    /// Reads the file form.
    pub fn parse(text: &str) -> Result<Self, ProfileError> {
        match AnyProfile::parse(text)? {
            AnyProfile::Machine(profile) => Ok(*profile),
            AnyProfile::Trainer(_) => Err(ProfileError {
                message: "it is the profile of a trainer".to_owned(),
                place: None,
                cure: "measure the machine with `debubble calibrate`",
            }),
        }
    }

    fn parse_body(text: &str) -> Result<Self, ProfileError> {
        let document: Document = toml::from_str(text).map_err(|error| ProfileError {
            message: error.message().to_owned(),
            place: error.span(),
            cure: WRITTEN_BY,
        })?;
        document.into_profile()
    }

    /// The file form, which [`Profile::parse`] reads back as the same.
    #[must_use]
    pub fn to_toml(&self) -> String {
        let head = "# What `debubble calibrate` measured. Times are nanoseconds, sizes bytes.\n\
                    # low and high: the 95 % confidence interval of the median. The samples, in the\n\
                    # order taken, are what counts.\n";
        // Tables with text keys and numbers below 2^63: there is nothing that TOML cannot say.
        let body = toml::to_string(&Document::of(self)).unwrap_or_default();
        format!("{head}{body}")
    }
}

impl Document {
    fn into_profile(self) -> Result<Profile, ProfileError> {
        let half_width = check_half_width(&self.half_width)?;
        let read = |quantity| read_quantity(quantity, half_width);
        let parameters = *self.optimizer.parameters.get_ref();
        if !(1..=MAX_BYTES).contains(&parameters) {
            let message = format!("{parameters} parameters: from 1 to {MAX_BYTES}");
            return fail(self.optimizer.parameters.span(), message);
        }
        let links = self.link.into_iter().map(|link| read_link(link, half_width));
        Ok(Profile {
            machine: self.machine,
            model: read_model(&self.model)?,
            half_width,
            overhead: read(self.overhead)?,
            layer: read_part(self.layer, half_width)?,
            embedding: read_part(self.embedding, half_width)?,
            head: read_part(self.head, half_width)?,
            optimizer: Optimizer { parameters, step: read(self.optimizer.step)? },
            links: links.collect::<Result<_, _>>()?,
        })
    }

    fn of(profile: &Profile) -> Self {
        let half_width = profile.half_width;
        let quantity = |one: &Quantity| write_quantity(one, half_width);
        let part = |part: &Part| PartDocument {
            footprint: part.footprint.into(),
            forward: quantity(&part.forward),
            backward_input: quantity(&part.backward_input),
            backward_weight: quantity(&part.backward_weight),
        };
        Self {
            version: unplaced(VERSION),
            half_width: unplaced(half_width),
            machine: profile.machine.clone(),
            model: unplaced(profile.model.into()),
            overhead: quantity(&profile.overhead),
            layer: part(&profile.layer),
            embedding: part(&profile.embedding),
            head: part(&profile.head),
            optimizer: OptimizerDocument {
                parameters: unplaced(profile.optimizer.parameters),
                step: quantity(&profile.optimizer.step),
            },
            link: profile.links.iter().map(|link| write_link(link, half_width)).collect(),
        }
    }
}

/// Checks a target half-width of an interval, a fraction of its median above 0 and at most 1.
pub(crate) fn check_half_width(given: &Spanned<f64>) -> Result<f64, ProfileError> {
    let half_width = *given.get_ref();
    if half_width > 0.0 && half_width <= 1.0 {
        return Ok(half_width);
    }
    let message = format!("half-width is {half_width}: it must be above 0 and at most 1");
    fail(given.span(), message)
}

fn read_model(model: &Spanned<ModelDocument>) -> Result<ModelShape, ProfileError> {
    let ModelDocument { hidden, heads, seq, microbatch_size, vocabulary, element } =
        model.get_ref();
    let Some(element) = Element::named(element) else {
        return fail(model.span(), format!("element is `{element}`: it must be f32 or bf16"));
    };
    let shape = Model::new(*hidden, *heads, 1, *vocabulary, *seq, *microbatch_size)
        .and_then(|model| ModelShape::new(model, element));
    shape.or_else(|error| fail(model.span(), error.to_string()))
}

fn read_part(part: PartDocument, half_width: f64) -> Result<Part, ProfileError> {
    Ok(Part {
        footprint: part.footprint.into(),
        forward: read_quantity(part.forward, half_width)?,
        backward_input: read_quantity(part.backward_input, half_width)?,
        backward_weight: read_quantity(part.backward_weight, half_width)?,
    })
}
