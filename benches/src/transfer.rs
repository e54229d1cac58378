//! Transfers between particles and nodes in the hand-written material point methods.

/// Momentum, later velocity, and mass.
pub type Node = [f32; 4];

// ANCHOR: transfer
/// Distances of planes and rows of nodes in memory.
#[derive(Clone, Copy, Debug)]
pub struct Strides {
    pub plane: usize,
    pub row: usize,
}

/// Quadratic B-spline weights of the three nodes around a particle along an axis, by its distance from the lowest.
#[inline(always)]
pub fn weights(f: f32) -> [f32; 3] {
    let (a, b, c) = (1.5 - f, f - 1.0, f - 0.5);
    [0.5 * a * a, 0.75 - b * b, 0.5 * c * c]
}

/// Adds a particle to the 27 nodes around it, of which `first` is the lowest. `base` is its momentum and mass at its position, and
/// the columns of its affine momentum are in units of cells.
#[inline(always)]
pub fn scatter(
    nodes: &mut [Node],
    first: usize,
    strides: Strides,
    part: [f32; 3],
    mut base: Node,
    [ax, ay, az]: [Node; 3],
) {
    let (wx, wy, wz) = (weights(part[0]), weights(part[1]), weights(part[2]));
    for k in 0..4 {
        base[k] -= ax[k] * part[0] + ay[k] * part[1] + az[k] * part[2];
    }
    for i in 0..3 {
        for j in 0..3 {
            let mut value = base;
            for k in 0..4 {
                value[k] += ax[k] * i as f32 + ay[k] * j as f32;
            }
            let w = wx[i] * wy[j];
            let at = first + i * strides.plane + j * strides.row;
            let row: &mut [Node; 3] = (&mut nodes[at..][..3]).try_into().expect("three nodes");
            for l in 0..3 {
                let w = w * wz[l];
                for k in 0..4 {
                    row[l][k] = w.mul_add(value[k] + az[k] * l as f32, row[l][k]);
                }
            }
        }
    }
}

/// The velocity around a particle, and its affine velocity, row by row, on `n` nodes along each axis.
#[inline(always)]
pub fn gather(
    nodes: &[Node],
    first: usize,
    strides: Strides,
    part: [f32; 3],
    n: usize,
) -> ([f32; 3], [f32; 9]) {
    let (wx, wy, wz) = (weights(part[0]), weights(part[1]), weights(part[2]));
    // Sums of w v, w v i, w v j and w v l.
    let (mut v, mut ci, mut cj, mut cl) = ([0.0f32; 4], [0.0f32; 4], [0.0f32; 4], [0.0f32; 4]);
    for i in 0..3 {
        for j in 0..3 {
            let w = wx[i] * wy[j];
            let at = first + i * strides.plane + j * strides.row;
            let row: &[Node; 3] = (&nodes[at..][..3]).try_into().expect("three nodes");
            let (di, dj) = (i as f32 - part[0], j as f32 - part[1]);
            let mut line = [0.0f32; 4];
            for l in 0..3 {
                let (w, dl) = (w * wz[l], l as f32 - part[2]);
                for k in 0..4 {
                    let wv = w * row[l][k];
                    line[k] += wv;
                    cl[k] = wv.mul_add(dl, cl[k]);
                }
            }
            for k in 0..4 {
                v[k] += line[k];
                ci[k] = line[k].mul_add(di, ci[k]);
                cj[k] = line[k].mul_add(dj, cj[k]);
            }
        }
    }
    let scale = 4.0 * n as f32;
    let affine = |e: usize| [ci, cj, cl][e % 3][e / 3] * scale;
    ([v[0], v[1], v[2]], std::array::from_fn(affine))
}
// ANCHOR_END: transfer

#[cfg(test)]
mod tests {
    use super::*;

    /// What particles add is their mass and momentum, and an affine velocity field is gathered exactly.
    #[test]
    fn sums_are_kept_and_affine_fields_are_exact() {
        let (part, n) = ([0.7, 1.2, 0.9], 4);
        let strides = Strides { plane: 16, row: 4 };
        let mut nodes = [[0.0; 4]; 64];
        let columns = [
            [0.1, 0.2, 0.3, 0.0],
            [0.4, 0.5, 0.6, 0.0],
            [0.7, 0.8, 0.9, 0.0],
        ];
        scatter(&mut nodes, 21, strides, part, [1.0, 2.0, 3.0, 4.0], columns);
        for (k, expected) in [1.0, 2.0, 3.0, 4.0].into_iter().enumerate() {
            let sum: f32 = nodes.iter().map(|node| node[k]).sum();
            assert!((sum - expected).abs() < 1e-5, "{k}: {sum}");
        }
        for (at, node) in nodes.iter_mut().enumerate() {
            let x = [at / 16, at / 4 % 4, at % 4].map(|c| c as f32 - 1.0);
            *node = [x[0] + 2.0 * x[1], 3.0 * x[2], 1.0, 0.0];
        }
        let (v, c) = gather(&nodes, 21, strides, part, n);
        let expected = [part[0] + 2.0 * part[1], 3.0 * part[2], 1.0];
        for (found, expected) in v.into_iter().zip(expected) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        let slopes = [1.0, 2.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0].map(|s| s * n as f32);
        for (found, expected) in c.into_iter().zip(slopes) {
            assert!((found - expected).abs() < 1e-4, "{found} {expected}");
        }
    }
}
