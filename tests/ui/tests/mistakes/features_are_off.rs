//! Methods of features that are off: the error names the feature.

extern crate wuji as wuji_ir;

mod field {
    pub struct Field<T, const D: usize>(pub T);
}

#[path = "../../../../crates/wuji/src/features.rs"]
mod features;

fn main() {
    let x = field::Field::<f32, 2>(0.0);
    let _ = x.to_ndarray();
    let _ = x.save_png("x.png");
    let _ = x.to_picture();
}
