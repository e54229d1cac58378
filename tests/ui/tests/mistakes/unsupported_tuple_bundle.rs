use wuji::prelude::*;

#[derive(Fields)]
struct Heat(Field<f32, 2>, f32);

fn main() {}
