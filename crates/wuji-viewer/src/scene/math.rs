//! Vectors of three components and matrices of four rows, for column vectors.

/// A position, a direction, or a color.
pub type Vec3 = [f32; 3];

/// A matrix as rows; it transforms column vectors, so that a translation is in its last column.
pub type Mat4 = [[f32; 4]; 4];

pub(super) fn sub(a: Vec3, b: Vec3) -> Vec3 {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub(super) fn add(a: Vec3, b: Vec3) -> Vec3 {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub(super) fn scale(a: Vec3, by: f32) -> Vec3 {
    a.map(|c| c * by)
}

pub(super) fn dot(a: Vec3, b: Vec3) -> f32 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(super) fn cross(a: Vec3, b: Vec3) -> Vec3 {
    [
        a[1] * b[2] - a[2] * b[1],
        a[2] * b[0] - a[0] * b[2],
        a[0] * b[1] - a[1] * b[0],
    ]
}

/// A vector of length 1; one without a direction stays as it is.
pub(super) fn normalize(a: Vec3) -> Vec3 {
    let length = dot(a, a).sqrt();
    if length > 0.0 {
        scale(a, 1.0 / length)
    } else {
        a
    }
}

pub(super) fn is_finite(a: Vec3) -> bool {
    a.iter().all(|c| c.is_finite())
}

/// `a` at 0, `b` at 1.
pub(super) fn mix<const N: usize>(a: [f32; N], b: [f32; N], t: f32) -> [f32; N] {
    std::array::from_fn(|k| a[k] + (b[k] - a[k]) * t)
}

/// Applies the affine part of a matrix to a position.
pub(super) fn transform(m: &Mat4, p: Vec3) -> Vec3 {
    let row = |k: usize| m[k][0] * p[0] + m[k][1] * p[1] + m[k][2] * p[2] + m[k][3];
    [row(0), row(1), row(2)]
}

/// Applies the linear part of a matrix to a direction.
pub(super) fn rotate(m: &Mat4, v: Vec3) -> Vec3 {
    let row = |k: usize| m[k][0] * v[0] + m[k][1] * v[1] + m[k][2] * v[2];
    [row(0), row(1), row(2)]
}

pub(super) fn product(a: &Mat4, b: &Mat4) -> Mat4 {
    std::array::from_fn(|i| std::array::from_fn(|j| (0..4).map(|k| a[i][k] * b[k][j]).sum::<f32>()))
}

/// The matrix that keeps normals orthogonal to a surface: the cofactors of the linear part.
pub(super) fn normal_matrix(m: &Mat4) -> Mat4 {
    let column = |k: usize| [m[0][k], m[1][k], m[2][k]];
    let columns = [0, 1, 2].map(column);
    let cofactors = [
        cross(columns[1], columns[2]),
        cross(columns[2], columns[0]),
        cross(columns[0], columns[1]),
    ];
    // A reflection turns the cofactors around.
    let sign = dot(columns[0], cofactors[0]).signum();
    let row = |k: usize| {
        let [a, b, c] = [0, 1, 2].map(|column: usize| sign * cofactors[column][k]);
        [a, b, c, 0.0]
    };
    [row(0), row(1), row(2), [0.0, 0.0, 0.0, 1.0]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normals_stay_orthogonal() {
        // A stretched and mirrored space.
        let m = [
            [2.0, 0.0, 0.0, 5.0],
            [0.5, 1.0, 0.0, 0.0],
            [0.0, 0.0, -3.0, 1.0],
            [0.0, 0.0, 0.0, 1.0],
        ];
        let (u, v) = ([1.0, 2.0, 0.5], [0.0, 1.0, -1.0]);
        let normal = rotate(&normal_matrix(&m), cross(u, v));
        assert!(dot(normal, rotate(&m, u)).abs() < 1e-5);
        assert!(dot(normal, rotate(&m, v)).abs() < 1e-5);
        // It stays on its side: a mirror shows the outside of a box.
        let outside = rotate(&normal_matrix(&m), [0.0, 0.0, 1.0]);
        assert!(dot(outside, rotate(&m, [0.0, 0.0, 1.0])) > 0.0);
    }

    #[test]
    fn products_apply_the_right_factor_first() {
        let double = std::array::from_fn(|i| {
            std::array::from_fn(|j| f32::from(u8::from(i == j)) * if i < 3 { 2.0 } else { 1.0 })
        });
        let mut shift = [[0.0; 4]; 4];
        (0..4).for_each(|k| shift[k][k] = 1.0);
        shift[0][3] = 1.0;
        assert_eq!(
            transform(&product(&double, &shift), [1.0; 3]),
            [4.0, 2.0, 2.0]
        );
        assert_eq!(
            transform(&product(&shift, &double), [1.0; 3]),
            [3.0, 2.0, 2.0]
        );
    }

    #[test]
    fn vectors_without_a_direction_stay() {
        assert_eq!(normalize([0.0; 3]), [0.0; 3]);
        assert_eq!(normalize([0.0, 3.0, 4.0]), [0.0, 0.6, 0.8]);
    }
}
