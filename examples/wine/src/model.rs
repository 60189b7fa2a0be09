//! A small network that guesses the mark of a wine.

use std::f64::consts::PI;
use std::path::Path;
use std::sync::PoisonError;

use candle_core::{D, DType, Device, Result, Tensor, Var};
use candle_nn::{Linear, Module, VarMap, loss};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::checksum::Checksum;
use crate::data::{Batch, CLASSES, FEATURES};

/// So wide and so many that a step takes about 10 ms. candle shares the work on tensors of 65,536 values and more among threads that
/// wait for one another by spinning; on a busy machine that doubles the time of a step, so none is as large here.
const HIDDEN: usize = 248;
const HIDDEN_LAYERS: usize = 5;

/// Layers: the features of a wine in, a score for each mark out.
pub struct Classifier {
    layers: Vec<Linear>,
    variables: VarMap,
}

impl Classifier {
    /// One that has learned nothing. The same seed gives the same weights: candle's own initialization cannot be seeded on the CPU.
    pub fn new(seed: u64) -> Result<Self> {
        let mut random = StdRng::seed_from_u64(seed);
        let variables = VarMap::new();
        let mut layers = Vec::new();
        let mut widths = vec![FEATURES];
        widths.extend([HIDDEN; HIDDEN_LAYERS]);
        widths.push(CLASSES);
        for (index, pair) in widths.windows(2).enumerate() {
            let (inputs, outputs) = (pair[0], pair[1]);
            let bound = (6.0 / inputs as f32).sqrt();
            let weights: Vec<f32> = (0..inputs * outputs).map(|_| random.random_range(-bound..bound)).collect();
            let weight = Var::from_vec(weights, (outputs, inputs), &Device::Cpu)?;
            let bias = Var::zeros(outputs, DType::F32, &Device::Cpu)?;
            layers.push(Linear::new(weight.as_tensor().clone(), Some(bias.as_tensor().clone())));
            let mut named = variables.data().lock().unwrap_or_else(PoisonError::into_inner);
            named.insert(format!("layer{index}.weight"), weight);
            named.insert(format!("layer{index}.bias"), bias);
        }
        Ok(Self { layers, variables })
    }

    /// What the optimizer may change.
    #[must_use]
    pub fn variables(&self) -> Vec<Var> {
        self.variables.all_vars()
    }

    fn scores(&self, features: &Tensor) -> Result<Tensor> {
        let mut values = features.clone();
        for (index, layer) in self.layers.iter().enumerate() {
            if index > 0 {
                values = values.relu()?;
            }
            values = layer.forward(&values)?;
        }
        Ok(values)
    }

    /// How wrong the model is about a batch.
    pub fn loss(&self, batch: &Batch) -> Result<Tensor> {
        loss::cross_entropy(&self.scores(&batch.features)?, &batch.classes)
    }

    /// The share of wines whose mark it guesses right.
    pub fn accuracy(&self, batch: &Batch) -> Result<f64> {
        let right = self.scores(&batch.features)?.argmax(D::Minus1)?.eq(&batch.classes)?;
        right.to_dtype(DType::F64)?.mean_all()?.to_scalar()
    }

    /// How much the first layer looks at each feature.
    pub(crate) fn feature_weights(&self) -> Result<Tensor> {
        self.layers[0].weight().abs()?.mean(0)
    }

    /// Writes a checkpoint (safetensors).
    pub fn save(&self, file: &Path) -> Result<()> {
        self.variables.save(file)
    }

    /// Adds the bits of all weights.
    pub fn add_to(&self, checksum: &mut Checksum) -> Result<()> {
        for layer in &self.layers {
            for tensor in [Some(layer.weight()), layer.bias()].into_iter().flatten() {
                checksum.add(&tensor.flatten_all()?.to_vec1()?);
            }
        }
        Ok(())
    }
}

/// A short warm-up, then half a cosine down to nothing.
#[must_use]
pub fn learning_rate(step: usize, steps: usize) -> f64 {
    const PEAK: f64 = 1e-3;
    const WARM_UP: usize = 50;
    let warm_up = ((step + 1) as f64 / WARM_UP as f64).min(1.0);
    PEAK * warm_up * 0.5 * (1.0 + (PI * step as f64 / steps as f64).cos())
}
