//! The place of every weight. A chunk has one parameter vector; those of all chunks, concatenated,
//! are the parameter vector of the whole model, the same for any partition into chunks.

use std::ops::Range;

use pipeline::{Shape, Vocabulary};

use crate::model::ends::{Embedding, Head};
use crate::model::layer::Layer;
use crate::model::linear::{Linear, Norming};
use crate::model::{Model, ModelError};
use crate::random;

/// The parts of a chunk, and the place of their weights in its parameter vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    offset: usize,
    parameters: usize,
    embedding: Option<Embedding>,
    layers: Vec<Layer>,
    head: Option<Head>,
    /// The layer norm before an output layer in shards.
    norm: Option<Norming>,
    /// A shard of the output layer, and its first token.
    shard: Option<(Linear, usize)>,
    total_layers: usize,
}

/// The initial values of parameters that do not start at 0.
enum Start {
    One,
    Normal { deviation: f64 },
}

impl Layout {
    /// The whole model as one chunk.
    #[must_use]
    pub fn whole(model: Model) -> Self {
        Self::of_layers(model, 0..model.layers(), 0)
    }

    /// The chunks of the model partitioned for `shape`, in model order: embeddings in the first,
    /// final layer norm and head in the last; the layer norm alone where the vocabulary is in
    /// shards.
    pub fn by_chunk(model: Model, shape: Shape) -> Result<Vec<Self>, ModelError> {
        let (mut first, mut offset) = (0, 0);
        let mut chunks = Vec::with_capacity(usize::from(shape.chunks()));
        for layers in model.layers_by_chunk(shape)? {
            let chunk = Self::of_layers(model, first..first + layers, offset);
            first += layers;
            offset += chunk.parameters;
            chunks.push(chunk);
        }
        if let Some(last) = chunks.last_mut().filter(|_| shape.has_shards())
            && let Some(head) = last.head.take()
        {
            last.norm = Some(head.norm);
            last.parameters = head.norm.end();
        }
        Ok(chunks)
    }

    /// The shards of the output layer for `shape`, by stage; empty if it is whole. All shards have
    /// the same number of tokens; the last tokens are padding without weights.
    pub fn shards(model: Model, shape: Shape) -> Result<Vec<Self>, ModelError> {
        let chunks = Self::by_chunk(model, shape)?;
        let Some(last) = chunks.last().filter(|_| shape.has_shards()) else {
            return Ok(Vec::new());
        };
        let (all, stages) = (model.vocabulary(), shape.stages());
        let padded = Vocabulary::padded(all as u64, stages);
        let each = usize::try_from(padded).unwrap_or(usize::MAX) / stages;
        let of_stage = |stage: usize| {
            let first = (stage * each).min(all);
            let (inputs, outputs) = (model.hidden(), each.min(all - first));
            let linear = Linear { at: 0, inputs, outputs, has_bias: false };
            Self {
                offset: last.range().end + first * inputs,
                parameters: linear.end(),
                embedding: None,
                layers: Vec::new(),
                head: None,
                norm: None,
                shard: Some((linear, first)),
                total_layers: model.layers(),
            }
        };
        Ok((0..stages).map(of_stage).collect())
    }

    fn of_layers(model: Model, range: Range<usize>, offset: usize) -> Self {
        let embedding = (range.start == 0).then(|| Embedding::new(model, 0));
        let mut end = embedding.map_or(0, Embedding::end);
        let has_head = range.end == model.layers();
        let layers = range.map(|_| {
            let layer = Layer::new(model, end);
            end = layer.end();
            layer
        });
        let layers = layers.collect();
        let head = has_head.then(|| Head::new(model, end));
        let parameters = head.map_or(end, Head::end);
        let (norm, shard) = (None, None);
        let total_layers = model.layers();
        Self { offset, parameters, embedding, layers, head, norm, shard, total_layers }
    }

    /// The same weights for microbatches of `model`: this model, or segments of its sequences.
    pub(crate) fn on(self, model: Model) -> Self {
        Self {
            embedding: self.embedding.map(|embedding| embedding.on(model)),
            layers: self.layers.into_iter().map(|layer| layer.on(model)).collect(),
            head: self.head.map(|head| head.on(model)),
            ..self
        }
    }

    /// Number of parameters.
    #[must_use]
    pub const fn parameters(&self) -> usize {
        self.parameters
    }

    /// The first stage whose shard of the output layer for `shape` has no token, if any.
    pub fn empty_shard(model: Model, shape: Shape) -> Result<Option<usize>, ModelError> {
        let shards = Self::shards(model, shape)?;
        Ok(shards.iter().position(|shard| shard.parameters == 0))
    }

    /// The range of these parameters in the vector of the whole model.
    #[must_use]
    pub const fn range(&self) -> Range<usize> {
        self.offset..self.offset + self.parameters
    }

    /// The transformer layers.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The embeddings, in the first chunk.
    #[must_use]
    pub const fn embedding(&self) -> Option<Embedding> {
        self.embedding
    }

    /// The head, in the last chunk.
    #[must_use]
    pub const fn head(&self) -> Option<Head> {
        self.head
    }

    /// The final layer norm, in the last chunk, where the output layer is in shards.
    pub(crate) const fn norm(&self) -> Option<Norming> {
        self.norm
    }

    /// The shard of the output layer, if this is one.
    pub(crate) fn shard(&self) -> Option<Linear> {
        self.shard.map(|(linear, _)| linear)
    }

    /// The tokens of the shard, if this is one.
    pub(crate) fn shard_tokens(&self) -> Option<Range<usize>> {
        self.shard.map(|(linear, first)| first..first + linear.outputs)
    }

    /// The initial values of the parameters, in order, as in GPT-2 (Radford et al., 2019): normal
    /// with standard deviation 0.02, divided before each residual sum by the square root of the
    /// number of residual sums; gains 1, biases 0. Each value is a function of `seed` and of its
    /// index in the whole model.
    pub fn starts(&self, seed: u64) -> impl Iterator<Item = f64> {
        self.draw(seed, 0..self.parameters).into_iter()
    }

    /// The initial values of the parameters in `range`.
    pub(crate) fn draw(&self, seed: u64, range: Range<usize>) -> Vec<f64> {
        let mut values = vec![0.0; range.len()];
        for (part, start) in self.parts() {
            let (from, to) = (part.start.max(range.start), part.end.min(range.end));
            for at in from..to {
                values[at - range.start] = match start {
                    Start::One => 1.0,
                    Start::Normal { deviation } => {
                        deviation * random::normal(seed, (self.offset + at) as u64)
                    }
                };
            }
        }
        values
    }

    /// All parameter ranges that do not start at 0, ascending.
    fn parts(&self) -> Vec<(Range<usize>, Start)> {
        const DEVIATION: f64 = 0.02;
        let residual = DEVIATION / (2.0 * self.total_layers as f64).sqrt();
        let gain = |norm: Norming| (norm.at..norm.at + norm.columns, Start::One);
        let matrix = |linear: Linear, deviation| {
            (linear.at..linear.at + linear.weights(), Start::Normal { deviation })
        };
        let tables = self.embedding.map(|embedding| {
            (embedding.at..embedding.end(), Start::Normal { deviation: DEVIATION })
        });
        let mut parts = Vec::from_iter(tables);
        for layer in &self.layers {
            parts.extend([
                gain(layer.norm1),
                matrix(layer.qkv, DEVIATION),
                matrix(layer.out, residual),
                gain(layer.norm2),
                matrix(layer.up, DEVIATION),
                matrix(layer.down, residual),
            ]);
        }
        if let Some(head) = self.head {
            parts.extend([gain(head.norm), matrix(head.logits, DEVIATION)]);
        }
        parts.extend(self.norm.map(gain));
        parts.extend(self.shard.map(|(linear, _)| matrix(linear, DEVIATION)));
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_have_the_parameters_that_the_sizes_tell() {
        let model = Model::new(24, 3, 7, 50, 11, 2).unwrap();
        for (stages, chunks) in [(1, 1), (2, 1), (2, 2), (7, 1), (1, 5)] {
            let shape = Shape::new(stages, chunks, 4).unwrap();
            let layouts = Layout::by_chunk(model, shape).unwrap();
            let laid_out: Vec<u128> = layouts.iter().map(|one| one.parameters() as u128).collect();
            assert_eq!(model.parameters_by_chunk(shape), Ok(laid_out), "{stages} x {chunks}");
        }
        assert_eq!(Layout::whole(model).parameters(), model.parameters());
    }

    #[test]
    fn shards_are_the_rows_of_the_output_layer() {
        let model = Model::new(24, 3, 7, 50, 11, 2).unwrap();
        let whole: Vec<f64> = Layout::whole(model).starts(3).collect();
        for (stages, tokens) in [(1, vec![50]), (2, vec![26, 24]), (4, vec![14, 14, 14, 8])] {
            let shape = Shape::new(stages, 1, 4).unwrap();
            assert_eq!(Layout::shards(model, shape), Ok(Vec::new()));
            let shape = shape.with_vocabulary(Vocabulary::TwoBarriers).unwrap();
            let shards = Layout::shards(model, shape).unwrap();
            let sizes: Vec<_> =
                shards.iter().filter_map(Layout::shard_tokens).map(|range| range.len()).collect();
            assert_eq!(sizes, tokens);
            let mut end = Layout::by_chunk(model, shape).unwrap().last().unwrap().range().end;
            for shard in &shards {
                assert_eq!(shard.range().start, end);
                end = shard.range().end;
                assert!(shard.starts(3).eq(whole[shard.range()].iter().copied()));
            }
            assert_eq!(end, model.parameters());
        }
    }
}
