use wuji::prelude::*;

#[derive(Fields)]
struct Heat {
    t: Field<f32, 2>,
}

#[kernel]
impl Heat {
    #[func]
    fn corner(&self) -> f32 {
        self.t[[0, 0]]
    }
}

fn main() -> wuji::Result<()> {
    let world = World::cpu()?;
    let heat = Heat { t: world.field("t", [4, 4])? };
    heat.corner();
    Ok(())
}
