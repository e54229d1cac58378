//! Conversions from and to other libraries.

use wuji::math::{Complex, DQuat, Quat};
use wuji::prelude::*;

/// Rows 1 2 3, 4 5 6, 7 8 9.
fn rows() -> Mat3 {
    Matrix([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]])
}

#[test]
fn of_glam() {
    let v: glam::Vec3 = vec3(1.0, 2.0, 3.0).into();
    assert_eq!(v, glam::Vec3::new(1.0, 2.0, 3.0));
    assert_eq!(Vec3::from(v), vec3(1.0, 2.0, 3.0));
    assert_eq!(Vec3::from(glam::Vec3A::from(v)), vec3(1.0, 2.0, 3.0));
    assert_eq!(IVec2::from(glam::IVec2::new(-1, 4)), ivec2(-1, 4));
    assert_eq!(UVec4::from(glam::UVec4::new(1, 2, 3, 4)), uvec4(1, 2, 3, 4));
    assert_eq!(DVec4::from(glam::DVec4::splat(0.5)), DVec4::splat(0.5));
    let m: glam::Mat3 = rows().into();
    assert_eq!(m * v, (rows() * vec3(1.0, 2.0, 3.0)).into());
    assert_eq!(m.x_axis, glam::Vec3::new(1.0, 4.0, 7.0));
    assert_eq!(Mat3::from(m), rows());
    let q: glam::Quat = Quat::from_axis_angle(vec3(0.0, 0.6, 0.8), 0.7).into();
    let turned = Quat::from(q).rotate(vec3(1.0, 2.0, 3.0));
    assert!(glam::Vec3::from(turned).distance(q * v) < 1e-5);
    assert_eq!(DQuat::from(glam::DQuat::IDENTITY), DQuat::identity());
}

#[test]
fn of_nalgebra() {
    let v: nalgebra::Vector3<f32> = vec3(1.0, 2.0, 3.0).into();
    assert_eq!(Vec3::from(v), vec3(1.0, 2.0, 3.0));
    let p: nalgebra::Point2<f64> = dvec2(1.0, 2.0).into();
    assert_eq!(DVec2::from(p), dvec2(1.0, 2.0));
    let m: nalgebra::Matrix3<f32> = rows().into();
    assert_eq!((m[(0, 1)], m[(1, 0)]), (2.0, 4.0));
    assert_eq!(Mat3::from(m), rows());
    let wide = Matrix([[1i32, 2, 3], [4, 5, 6]]);
    assert_eq!(Matrix::from(nalgebra::Matrix2x3::from(wide)), wide);
    let q: nalgebra::Quaternion<f32> = Quat::from_axis_angle(vec3(0.0, 0.6, 0.8), 0.7).into();
    let unit = nalgebra::UnitQuaternion::from_quaternion(q);
    let turned = Quat::from(unit).rotate(vec3(1.0, 2.0, 3.0));
    assert!((turned - Vec3::from(unit * v)).norm() < 1e-5);
}

#[test]
fn of_mint() {
    let v: mint::Vector3<f32> = vec3(1.0, 2.0, 3.0).into();
    assert_eq!(Vec3::from(v), vec3(1.0, 2.0, 3.0));
    assert_eq!(Vec2::from(mint::Point2 { x: 1.0, y: 2.0 }), vec2(1.0, 2.0));
    let m: mint::ColumnMatrix3<f32> = rows().into();
    assert_eq!(m.x.y, 4.0);
    assert_eq!(Mat3::from(m), rows());
    let m: mint::RowMatrix3<f32> = rows().into();
    assert_eq!(m.x.y, 2.0);
    assert_eq!(Mat3::from(m), rows());
    let q = Quat::new(1.0, 2.0, 3.0, 4.0);
    let other: mint::Quaternion<f32> = q.into();
    assert_eq!((other.s, other.v.z), (4.0, 3.0));
    assert_eq!(Quat::from(other), q);
}

#[test]
fn of_bytemuck() {
    let positions = [vec2(1.0, 2.0), vec2(3.0, 4.0)];
    let floats: &[f32] = bytemuck::cast_slice(&positions);
    assert_eq!(floats, [1.0, 2.0, 3.0, 4.0]);
    assert_eq!(bytemuck::bytes_of(&rows()).len(), 36);
    let quaternions: &[Quat] = bytemuck::cast_slice(&[0.0f32, 0.0, 0.0, 1.0]);
    assert_eq!(quaternions, [Quat::identity()]);
    let zero: Complex<f64> = bytemuck::Zeroable::zeroed();
    assert_eq!(zero, Complex::new(0.0, 0.0));
}
