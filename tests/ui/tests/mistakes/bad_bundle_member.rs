use wuji::prelude::*;

#[derive(Fields)]
struct Heat {
    t: Field<f32, 2>,
    title: String,
}

fn main() {}
