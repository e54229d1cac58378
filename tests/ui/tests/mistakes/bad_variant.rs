use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
enum State {
    Solid,
    Liquid,
}

#[kernel]
fn k(states: &Field<State, 1>) {
    for [i] in states {
        states[[i]] = match states[[i]] {
            State::Solid => State::Liquid,
        };
    }
}

fn main() {}
