//! A sanity check with a mistake in it: what eats the memory in one epoch of this example.

use candle_core::{D, DType, Result, Tensor};

use crate::data::{Batch, FEATURES};
use crate::model::Classifier;

/// How often a wine's mark is guessed right from the training wine most like it.
pub struct NeighbourAccuracy {
    /// By all features, each weighted as the model does. A model that is no better has learned the wines by heart.
    pub all_features: f64,
    /// By all but one, where that is worst: the feature that matters most.
    pub worst_without_one: f64,
}

/// Guesses the marks of the validation wines from the training wines most like them.
///
/// The mistake, one that people make: to subtract each wine from each other one by broadcasting. That is right, and short, and makes a
/// value for each *feature* of each *pair* (1599 * 1599 * 11 floats, 107 MiB) in each intermediate; it does so for training wines among
/// themselves too, which nobody asked about; and all intermediates live to the end of the function. Distances by |a|² + |b|² - 2ab,
/// from validation to training wines only, take 1.6 MiB.
pub fn neighbour_accuracy(model: &Classifier, train: &Batch, validation: &Batch) -> Result<NeighbourAccuracy> {
    let wines = Tensor::cat(&[&validation.features, &train.features], 0)?;
    let differences = wines.unsqueeze(1)?.broadcast_sub(&wines.unsqueeze(0)?)?;
    let weighted = differences.broadcast_mul(&model.feature_weights()?)?;
    let squares = weighted.sqr()?;
    let distances = squares.sum(D::Minus1)?;

    let mut worst_without_one = f64::INFINITY;
    for feature in 0..FEATURES {
        let without = (&distances - squares.narrow(D::Minus1, feature, 1)?.squeeze(D::Minus1)?)?;
        worst_without_one = worst_without_one.min(accuracy(&without, train, validation)?);
    }
    Ok(NeighbourAccuracy { all_features: accuracy(&distances, train, validation)?, worst_without_one })
}

/// `distances`: from each wine to each wine, the validation wines first.
fn accuracy(distances: &Tensor, train: &Batch, validation: &Batch) -> Result<f64> {
    let by_distance = distances.narrow(1, validation.len(), train.len())?.contiguous()?.arg_sort_last_dim(true)?;
    let nearest = by_distance.narrow(0, 0, validation.len())?.narrow(1, 0, 1)?.flatten_all()?;
    let right = train.classes.index_select(&nearest, 0)?.eq(&validation.classes)?;
    right.to_dtype(DType::F64)?.mean_all()?.to_scalar()
}
