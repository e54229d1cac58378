//! Chooses the layout of fields: runs a program over candidate layouts, compares its outputs and measures its time.

mod choice;
mod modules;
mod report;
mod search;
mod trial;

#[cfg(test)]
mod tests;

pub use choice::{CellNode, LayoutChoice, MemoryOrder, Placement};
pub use modules::{grids, relayout};
pub use search::{
    GridInfo, LayoutPlan, LayoutPoint, LayoutRequest, LayoutRun, TunedLayout, search_layout,
};
pub use trial::{Grid, LayoutSearch, LayoutTrial, layout};
