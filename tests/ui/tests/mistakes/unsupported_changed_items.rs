use wuji::prelude::*;

#[kernel]
fn k(x: &Field<f32, 1>) -> f32 {
    let mut a = [1.0, 2.0];
    for v in a.iter_mut() {
        *v += 1.0;
    }
    a[0]
}

fn main() {}
