//! The red wines of the wine quality data (Cortez et al., 2009), and the loader that makes batches of them.

use candle_core::{Device, Result, Tensor};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// What was measured of a wine: acidity, sugar, alcohol and so on.
pub(crate) const FEATURES: usize = 11;
/// The marks that were given: 3 to 8.
pub(crate) const CLASSES: usize = 6;

const LOWEST_MARK: usize = 3;
const VALIDATION_SHARE: usize = 5;
const SPLIT_SEED: u64 = 7;
/// How far a measurement is moved at random, in standard deviations: a network learns so few wines by heart otherwise.
const JITTER: f32 = 1.0;

/// Wines in memory: the data set that the loader gathers from.
pub struct Wines {
    features: Vec<[f32; FEATURES]>,
    classes: Vec<u32>,
}

impl Wines {
    /// The wines to train on and, one in five, those to validate with. The same at each call.
    #[must_use]
    pub fn load() -> (Self, Self) {
        let dataset = linfa_datasets::winequality();
        let mut features = Vec::with_capacity(dataset.targets.len());
        for row in dataset.records.rows() {
            let mut wine = [0.0; FEATURES];
            for (to, from) in wine.iter_mut().zip(row) {
                *to = *from as f32;
            }
            features.push(wine);
        }
        let classes: Vec<u32> = dataset.targets.iter().map(|mark| (mark - LOWEST_MARK) as u32).collect();

        let mut order: Vec<usize> = (0..classes.len()).collect();
        order.shuffle(&mut StdRng::seed_from_u64(SPLIT_SEED));
        let (validation, train) = order.split_at(order.len() / VALIDATION_SHARE);
        let pick = |chosen: &[usize]| Self {
            features: chosen.iter().map(|&wine| features[wine]).collect(),
            classes: chosen.iter().map(|&wine| classes[wine]).collect(),
        };
        let (mut train, mut validation) = (pick(train), pick(validation));
        // The validation wines must have no say in how the training wines are scaled.
        let scale = train.mean_and_deviation();
        train.standardize(&scale);
        validation.standardize(&scale);
        (train, validation)
    }

    fn mean_and_deviation(&self) -> [(f32, f32); FEATURES] {
        let count = self.features.len() as f32;
        std::array::from_fn(|feature| {
            let mean = self.features.iter().map(|wine| wine[feature]).sum::<f32>() / count;
            let variance = self.features.iter().map(|wine| (wine[feature] - mean).powi(2)).sum::<f32>() / count;
            (mean, variance.sqrt())
        })
    }

    fn standardize(&mut self, scale: &[(f32, f32); FEATURES]) {
        for wine in &mut self.features {
            for (value, (mean, deviation)) in wine.iter_mut().zip(scale) {
                *value = (*value - mean) / deviation;
            }
        }
    }

    /// How many wines there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// All of them in one batch.
    pub fn all(&self) -> Result<Batch> {
        Batch::new(self.features.iter().flatten().copied().collect(), self.classes.clone())
    }

    /// Batches of `size` wines: all wines in random order, `passes` times. The same seed gives the same batches.
    #[must_use]
    pub fn batches(&self, size: usize, passes: usize, seed: u64) -> Batches<'_> {
        Batches { wines: self, size, passes, order: Vec::new(), random: StdRng::seed_from_u64(seed) }
    }

    /// How many batches [`batches`](Self::batches) gives.
    #[must_use]
    pub fn batch_count(&self, size: usize, passes: usize) -> usize {
        (self.len() * passes).div_ceil(size)
    }
}

/// The loader: gathers a batch from the wines when it is asked for the next one.
pub struct Batches<'w> {
    wines: &'w Wines,
    size: usize,
    passes: usize,
    order: Vec<usize>,
    random: StdRng,
}

impl Batches<'_> {
    fn next_wine(&mut self) -> Option<usize> {
        if self.order.is_empty() && self.passes > 0 {
            self.passes -= 1;
            self.order.extend(0..self.wines.len());
            self.order.shuffle(&mut self.random);
        }
        self.order.pop()
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut features = Vec::with_capacity(self.size * FEATURES);
        let mut classes = Vec::with_capacity(self.size);
        // A batch may reach from one pass into the next, so that all but the last one are full.
        while classes.len() < self.size {
            let Some(wine) = self.next_wine() else { break };
            classes.push(self.wines.classes[wine]);
            for value in self.wines.features[wine] {
                features.push(value + self.random.random_range(-JITTER..JITTER));
            }
        }
        (!classes.is_empty()).then(|| Batch::new(features, classes))
    }
}

/// Wines as tensors.
pub struct Batch {
    pub(crate) features: Tensor,
    pub(crate) classes: Tensor,
}

impl Batch {
    fn new(features: Vec<f32>, classes: Vec<u32>) -> Result<Self> {
        let count = classes.len();
        Ok(Self {
            features: Tensor::from_vec(features, (count, FEATURES), &Device::Cpu)?,
            classes: Tensor::from_vec(classes, count, &Device::Cpu)?,
        })
    }

    /// How many wines are in it.
    #[must_use]
    pub fn len(&self) -> usize {
        self.classes.elem_count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wine_comes_once_a_pass_and_the_same_seed_gives_the_same_batches() -> Result<()> {
        let (train, validation) = Wines::load();
        assert_eq!((train.len(), validation.len()), (1280, 319));
        let sizes: Vec<usize> = train.batches(100, 2, 1).map(|batch| batch.map(|batch| batch.len())).collect::<Result<_>>()?;
        assert_eq!(sizes.len(), train.batch_count(100, 2));
        assert_eq!(sizes.iter().sum::<usize>(), 2 * train.len());

        let first = |seed| -> Result<Vec<f32>> {
            let batch = train.batches(100, 1, seed).next().transpose()?;
            batch.map_or(Ok(Vec::new()), |batch| batch.features.flatten_all()?.to_vec1())
        };
        assert_eq!(first(1)?, first(1)?);
        assert_ne!(first(1)?, first(2)?);
        Ok(())
    }
}
