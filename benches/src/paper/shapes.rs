//! Generated stand-ins for the models of the paper: signed distances in the unit cube, negative inside.

/// Distance from a point to a capsule: a ball of a radius that changes from one end of a segment to the other.
fn capsule(at: [f32; 3], [a, b]: [[f32; 3]; 2], [first, last]: [f32; 2]) -> f32 {
    let dot = |x: [f32; 3], y: [f32; 3]| x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
    let (along, from) = (
        std::array::from_fn(|d| b[d] - a[d]),
        std::array::from_fn(|d| at[d] - a[d]),
    );
    let t = (dot(from, along) / dot(along, along).max(1e-12)).clamp(0.0, 1.0);
    let apart: [f32; 3] = std::array::from_fn(|d| from[d] - t * along[d]);
    dot(apart, apart).sqrt() - (first + (last - first) * t)
}

/// The distance to the nearest of several capsules.
fn union(at: [f32; 3], parts: &[([[f32; 3]; 2], [f32; 2])]) -> f32 {
    let distances = parts.iter().map(|(ends, radii)| capsule(at, *ends, *radii));
    distances.fold(f32::INFINITY, f32::min)
}

/// A sitting animal with long ears.
pub fn bunny(at: [f32; 3]) -> f32 {
    const PARTS: [([[f32; 3]; 2], [f32; 2]); 7] = [
        ([[0.38, 0.32, 0.50], [0.52, 0.36, 0.50]], [0.22, 0.20]),
        ([[0.62, 0.50, 0.50], [0.68, 0.60, 0.50]], [0.14, 0.13]),
        ([[0.64, 0.70, 0.45], [0.52, 0.92, 0.38]], [0.05, 0.04]),
        ([[0.64, 0.70, 0.55], [0.50, 0.90, 0.64]], [0.05, 0.04]),
        ([[0.60, 0.16, 0.38], [0.72, 0.14, 0.36]], [0.08, 0.06]),
        ([[0.60, 0.16, 0.62], [0.72, 0.14, 0.64]], [0.08, 0.06]),
        ([[0.16, 0.30, 0.50], [0.16, 0.30, 0.50]], [0.07, 0.07]),
    ];
    union(at, &PARTS)
}

/// A long body in waves, with a head, legs and a thin tail.
pub fn dragon(at: [f32; 3]) -> f32 {
    const PARTS: [([[f32; 3]; 2], [f32; 2]); 12] = [
        ([[0.30, 0.36, 0.42], [0.42, 0.46, 0.52]], [0.070, 0.090]),
        ([[0.42, 0.46, 0.52], [0.56, 0.40, 0.48]], [0.090, 0.085]),
        ([[0.56, 0.40, 0.48], [0.66, 0.50, 0.46]], [0.085, 0.065]),
        ([[0.66, 0.50, 0.46], [0.70, 0.64, 0.50]], [0.065, 0.050]),
        ([[0.70, 0.66, 0.50], [0.80, 0.64, 0.52]], [0.070, 0.040]),
        ([[0.30, 0.36, 0.42], [0.20, 0.26, 0.54]], [0.070, 0.045]),
        ([[0.20, 0.26, 0.54], [0.14, 0.36, 0.66]], [0.045, 0.020]),
        ([[0.34, 0.38, 0.38], [0.32, 0.20, 0.34]], [0.045, 0.030]),
        ([[0.38, 0.40, 0.56], [0.36, 0.20, 0.62]], [0.045, 0.030]),
        ([[0.60, 0.40, 0.40], [0.64, 0.20, 0.36]], [0.045, 0.030]),
        ([[0.60, 0.40, 0.54], [0.62, 0.20, 0.60]], [0.045, 0.030]),
        ([[0.70, 0.70, 0.50], [0.62, 0.78, 0.50]], [0.025, 0.010]),
    ];
    let [x, y, z] = at;
    // Scales, so that the surface is not smooth.
    let scales = (x * 90.0).sin() * (y * 90.0).sin() * (z * 90.0).sin();
    union(at, &PARTS) + 0.004 * scales
}

/// The voxels of a cube of `n`^3 with the lowest `key`: exactly this share of all, in order of their coordinates.
pub fn lowest(n: i32, share: f64, key: impl Fn([f32; 3]) -> f32) -> Vec<[i32; 3]> {
    let at = |c: i32| (c as f32 + 0.5) / n as f32;
    let mut all: Vec<(f32, [i32; 3])> = Vec::with_capacity((n * n * n) as usize);
    for i in 0..n {
        for j in 0..n {
            for k in 0..n {
                all.push((key([at(i), at(j), at(k)]), [i, j, k]));
            }
        }
    }
    let count = (all.len() as f64 * share).round() as usize;
    if count < all.len() {
        all.select_nth_unstable_by(count, |a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        all.truncate(count);
    }
    let mut found: Vec<[i32; 3]> = all.into_iter().map(|(_, at)| at).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_inside_of_the_cube() {
        for shape in [bunny, dragon] {
            let edge = |c: f32| shape([c, 0.5, 0.5]).min(shape([0.5, c, 0.5]));
            assert!(shape([0.45, 0.4, 0.5]) < 0.0);
            assert!(edge(0.01).min(edge(0.99)) > 0.0);
        }
    }

    #[test]
    fn the_share_is_exact() {
        let voxels = lowest(32, 0.01, |at| bunny(at).abs());
        assert_eq!(voxels.len(), 328);
        assert!(voxels.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
