//! Systems of linear inequalities over integers, and whether they can be satisfied.

/// `sum of coefficient * variable + constant >= 0`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Inequality {
    /// One for each variable.
    coefficients: Vec<i128>,
    constant: i128,
}

/// A conjunction of inequalities.
#[derive(Clone, Debug, Default)]
pub(super) struct System {
    variables: usize,
    /// The terms, without those of variables that were added later.
    inequalities: Vec<Inequality>,
}

/// Elimination can square the number of inequalities in each step; a system that grows beyond this one counts as feasible.
const MOST_INEQUALITIES: usize = 400;

impl System {
    /// A new variable.
    pub(super) fn variable(&mut self) -> usize {
        self.variables += 1;
        self.variables - 1
    }

    pub(super) fn at_least_zero(&mut self, terms: &[(usize, i128)], constant: i128) {
        let mut coefficients = vec![0; self.variables];
        for (variable, coefficient) in terms {
            coefficients[*variable] += coefficient;
        }
        self.inequalities.push(Inequality {
            coefficients,
            constant,
        });
    }

    pub(super) fn equal_to_zero(&mut self, terms: &[(usize, i128)], constant: i128) {
        let negative: Vec<_> = terms.iter().map(|(v, c)| (*v, -c)).collect();
        self.at_least_zero(terms, constant);
        self.at_least_zero(&negative, -constant);
    }

    /// Whether some numbers satisfy all inequalities. A `false` is certain; a `true` is not, because the numbers may be fractions.
    pub(super) fn is_feasible(&self) -> bool {
        let mut rest = self.inequalities.clone();
        for inequality in &mut rest {
            inequality.coefficients.resize(self.variables, 0);
            inequality.tighten();
        }
        let mut variables: Vec<usize> = (0..self.variables).collect();
        // Elimination keeps integers where the coefficients are 1.
        let largest = |rest: &[Inequality], v: usize| {
            let coefficients = rest.iter().map(|i| i.coefficients[v].abs());
            coefficients.max().unwrap_or(0)
        };
        while let Some(at) = (0..variables.len()).min_by_key(|at| largest(&rest, variables[*at])) {
            match eliminate(rest, variables.swap_remove(at)) {
                Some(next) => rest = next,
                None => return true,
            }
        }
        rest.iter().all(|i| i.constant >= 0)
    }
}

impl Inequality {
    /// Divides by the common divisor; integers allow to round the constant down.
    fn tighten(&mut self) {
        let divisor = self.coefficients.iter().fold(0, |a, b| gcd(a, b.abs()));
        if divisor > 1 {
            for coefficient in &mut self.coefficients {
                *coefficient /= divisor;
            }
            self.constant = self.constant.div_euclid(divisor);
        }
    }

    /// The sum of two inequalities in which a variable cancels; `None` on overflow.
    fn without(&self, other: &Inequality, variable: usize) -> Option<Inequality> {
        let (p, n) = (self.coefficients[variable], -other.coefficients[variable]);
        let sum = |a: i128, b: i128| n.checked_mul(a)?.checked_add(p.checked_mul(b)?);
        let pairs = self.coefficients.iter().zip(&other.coefficients);
        let mut out = Inequality {
            coefficients: pairs.map(|(a, b)| sum(*a, *b)).collect::<Option<_>>()?,
            constant: sum(self.constant, other.constant)?,
        };
        out.tighten();
        Some(out)
    }
}

/// The system without a variable; `None` if it becomes too large.
fn eliminate(system: Vec<Inequality>, variable: usize) -> Option<Vec<Inequality>> {
    let (with, mut out): (Vec<_>, Vec<_>) = system
        .into_iter()
        .partition(|i| i.coefficients[variable] != 0);
    let (lower, upper): (Vec<_>, Vec<_>) =
        with.into_iter().partition(|i| i.coefficients[variable] > 0);
    for a in &lower {
        for b in &upper {
            let combined = a.without(b, variable)?;
            if !out.contains(&combined) {
                out.push(combined);
            }
        }
        if out.len() > MOST_INEQUALITIES {
            return None;
        }
    }
    Some(out)
}

fn gcd(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::System;

    #[test]
    fn bounds_that_exclude_each_other() {
        let mut s = System::default();
        let (x, y) = (s.variable(), s.variable());
        s.at_least_zero(&[(x, 1), (y, -1)], -1);
        assert!(s.is_feasible());
        s.at_least_zero(&[(y, 1), (x, -1)], 0);
        assert!(!s.is_feasible());
    }

    #[test]
    fn equations_without_integers() {
        let mut s = System::default();
        let (x, y) = (s.variable(), s.variable());
        s.equal_to_zero(&[(x, 2), (y, -4)], 1);
        assert!(!s.is_feasible());
    }

    #[test]
    fn a_system_is_what_trying_all_numbers_finds() {
        let mut state = 7u64;
        let mut number = |n: i128| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            i128::from(state >> 33).rem_euclid(n)
        };
        let mut refused = 0;
        for _ in 0..2000 {
            let mut s = System::default();
            let vars: Vec<usize> = (0..3).map(|_| s.variable()).collect();
            let mut rows = Vec::new();
            for v in &vars {
                s.at_least_zero(&[(*v, 1)], 0);
                s.at_least_zero(&[(*v, -1)], 3);
            }
            for _ in 0..3 {
                let terms: Vec<_> = vars.iter().map(|v| (*v, number(7) - 3)).collect();
                let constant = number(9) - 5;
                s.equal_to_zero(&terms, constant);
                rows.push((terms, constant));
            }
            let found = (0..64i128).any(|at| {
                let x = [at % 4, at / 4 % 4, at / 16];
                rows.iter().all(|(terms, constant)| {
                    terms.iter().map(|(v, c)| c * x[*v]).sum::<i128>() + constant == 0
                })
            });
            assert!(s.is_feasible() || !found);
            refused += i32::from(!s.is_feasible());
        }
        assert!(refused > 1000, "{refused}");
    }
}
