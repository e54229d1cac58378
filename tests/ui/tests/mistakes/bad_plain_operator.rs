use wuji::prelude::*;

#[derive(Element, Clone, Copy)]
struct Money {
    cents: i64,
}

impl std::ops::Add for Money {
    type Output = Money;

    fn add(self, other: Money) -> Money {
        Money {
            cents: self.cents + other.cents,
        }
    }
}

#[kernel]
fn k(x: &Field<Money, 1>) {
    for [i] in x {
        x[[i]] = x[[i]] + x[[i + 1]];
    }
}

fn main() {}
