//! The layers of each chunk of a set-up, where the question gives them.

use pipeline::{Family, LayerLayout, Placement};
use plan::Transformer;
use question::diagnostic::Diagnostic;

use super::key;
use crate::Reader;
use crate::document::SetupDocument;

impl Reader<'_> {
    /// The layers of each chunk: of a layout, or of an uneven first or last stage.
    pub(super) fn layout_of(
        &self,
        given: &SetupDocument,
        model: &Transformer,
        family: Family,
        chunks: u64,
    ) -> Result<Option<LayerLayout>, Diagnostic> {
        let uneven = [
            ("first-stage-layers", given.first_stage_layers.is_some()),
            ("last-stage-layers", given.last_stage_layers.is_some()),
        ];
        let uneven = uneven.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name);
        let ways = [
            given.layout.is_some().then_some("layout"),
            given.split.is_some().then_some("split"),
            uneven,
        ];
        let mut ways = ways.into_iter().flatten();
        if let (Some(way), Some(other)) = (ways.next(), ways.next()) {
            let message = format!("{way} and {other} both place layers");
            return Err(self.wrong(&key(other), message).with_help("take one of them out"));
        }
        let Some(way) = uneven.or(given.layout.is_some().then_some("layout")) else {
            return Ok(None);
        };
        self.check_placement(family, way)?;
        match &given.layout {
            Some(layout) => {
                self.check_layout(&key("layout"), layout, model)?;
                Ok(Some(layout.clone()))
            }
            None => self.uneven(given, way, model, chunks).map(Some),
        }
    }

    /// Checks that `way` says where layers lie under `family`: a layout names its chunks one after the other,
    /// wherever they lie, but keys of the first and the last stage name stages.
    fn check_placement(&self, family: Family, way: &str) -> Result<(), Diagnostic> {
        let name = family.name();
        let message = match family.about().placement {
            Placement::Looped => return Ok(()),
            Placement::Vee if way == "layout" => return Ok(()),
            Placement::Vee => format!(
                "{way} gives chunk after chunk to stage after stage, but {name} goes back and forth"
            ),
            Placement::Mirrored => format!(
                "{way} gives every chunk to one stage, but {name} has it on two, one for each direction"
            ),
        };
        let cure = "take it out, or write a schedule such as 1f1b or 1f1b-i";
        Err(self.wrong(&key(way), message).with_help(cure))
    }

    /// Checks that `layout`, at `path`, is one of `model`.
    pub(crate) fn check_layout(
        &self,
        path: &str,
        layout: &LayerLayout,
        model: &Transformer,
    ) -> Result<(), Diagnostic> {
        let fail = |message: String, cure: String| self.wrong(path, message).with_help(cure);
        let of_layers = layout.total();
        if of_layers != model.layers {
            let has = model.layers;
            let message = format!("layout has {of_layers} layers, but the model has {has}");
            return Err(fail(message, format!("write t {has} times in all; t*3 is ttt")));
        }
        if layout.mtp() != model.mtp {
            let (in_layout, has) = (layout.mtp(), model.mtp);
            let message = format!(
                "layout has {in_layout} layers of multi-token prediction (m), but the model has {has}"
            );
            let cure = match has {
                0 => {
                    "take m out, or give the model its layers of multi-token prediction".to_owned()
                }
                _ => format!(
                    "write {} behind the last t",
                    if has == 1 { "m".to_owned() } else { format!("m*{has}") }
                ),
            };
            return Err(fail(message, cure));
        }
        Ok(())
    }

    /// The layout with the layers of the first or the last stage as given, and equally many on each other stage;
    /// each stage deals its own evenly to its chunks, as Megatron-LM does with
    /// `--decoder-first-pipeline-num-layers` and `--decoder-last-pipeline-num-layers`.
    fn uneven(
        &self,
        given: &SetupDocument,
        way: &str,
        model: &Transformer,
        chunks: u64,
    ) -> Result<LayerLayout, Diagnostic> {
        let stages = given.pipeline.unwrap_or(1);
        let ends = [given.first_stage_layers, given.last_stage_layers];
        let ends_given = ends.iter().flatten().count() as u64;
        let fail =
            |message: String, cure: &str| Err(self.wrong(&key(way), message).with_help(cure));
        if stages < 2 {
            let message = format!("{way} is for pipelines, and there is one stage");
            return fail(message, "give pipeline, or take it out");
        }
        let sum = ends.iter().flatten().fold(0, |sum: u64, one| sum.saturating_add(*one));
        let (others, rest) = (stages - ends_given.min(stages), model.layers.checked_sub(sum));
        let Some(rest) = rest else {
            let message = format!("{way} and the other end take {sum} of {} layers", model.layers);
            return fail(message, "give the ends fewer");
        };
        if others == 0 && rest > 0 || others > 0 && !rest.is_multiple_of(others) {
            let message =
                format!("{rest} layers are left for {others} stages, which does not divide");
            return fail(message, "give the ends other numbers, or write a layout");
        }
        let middle = rest.checked_div(others).unwrap_or(0);
        let of_stage = |stage: u64| match stage {
            0 => ends[0].unwrap_or(middle),
            stage if stage + 1 == stages => ends[1].unwrap_or(middle),
            _ => middle,
        };
        if let Some(odd) = (0..stages).map(of_stage).find(|layers| !layers.is_multiple_of(chunks)) {
            let message =
                format!("{odd} layers of a stage cannot be divided among {chunks} chunks");
            return fail(message, "give other numbers, or write a layout");
        }
        let all = stages.saturating_mul(chunks);
        if all > model.layers.saturating_add(2) {
            let message = format!("{all} chunks, but the model has {} layers", model.layers);
            return fail(message, "give fewer stages or chunks");
        }
        let layers = (0..all).map(|chunk| of_stage(chunk % stages) / chunks).collect();
        let layout = LayerLayout::of(layers);
        layout.map_err(|error| self.wrong(&key(way), error.to_string()))
    }
}
