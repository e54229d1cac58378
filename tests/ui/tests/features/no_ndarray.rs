use wuji::prelude::*;

fn main() -> wuji::Result<()> {
    let world = World::cpu()?;
    let x = world.field::<f32, 2>("x", [8, 8])?;
    let _ = x.to_ndarray()?;
    Ok(())
}
