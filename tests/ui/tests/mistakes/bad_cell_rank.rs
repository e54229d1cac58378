use wuji::prelude::*;

#[kernel]
fn touch(blocks: &Cells<2>, x: &Field<f32, 2>) {
    for [i, j] in x {
        if !blocks.is_active([i, j, 0]) {
            blocks.activate([i, j]);
        }
    }
}

fn main() {}
