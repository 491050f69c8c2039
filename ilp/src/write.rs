//! The program as a text that solvers read: CPLEX LP and free MPS.

use std::fmt::{self, Write};

use crate::model::{Model, Row, Variable};

impl Model {
    /// The program in CPLEX LP format.
    #[must_use]
    pub fn lp(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write_lp(&mut text);
        text
    }

    /// The program in free MPS format: fields are set apart by blanks, and names may be long.
    #[must_use]
    pub fn mps(&self) -> String {
        let mut text = String::new();
        let _ = self.write_mps(&mut text);
        text
    }

    fn write_lp(&self, out: &mut String) -> fmt::Result {
        for line in self.notes() {
            writeln!(out, "\\ {line}")?;
        }
        writeln!(out, "Minimize\n obj: cost\nSubject To")?;
        for Row { name, terms, least } in &self.rows {
            write!(out, " {name}:")?;
            for (at, &(variable, factor)) in terms.iter().enumerate() {
                // Readers may refuse long lines.
                let separator = if at > 0 && at % 8 == 0 { "\n " } else { "" };
                let sign = if factor < 0 { '-' } else { '+' };
                write!(out, "{separator} {sign} ")?;
                if factor.unsigned_abs() != 1 {
                    write!(out, "{} ", factor.unsigned_abs())?;
                }
                write!(out, "{}", self.variables[variable].name)?;
            }
            writeln!(out, " >= {least}")?;
        }
        writeln!(out, "Bounds")?;
        for Variable { name, range: [low, high], .. } in self.variables.iter().filter(not_binary) {
            match low == high {
                true => writeln!(out, " {name} = {low}")?,
                false => writeln!(out, " {low} <= {name} <= {high}")?,
            }
        }
        if self.variables.iter().any(|one| one.is_binary) {
            writeln!(out, "Binaries")?;
        }
        for one in self.variables.iter().filter(|one| one.is_binary) {
            writeln!(out, " {}", one.name)?;
        }
        writeln!(out, "End")
    }

    fn write_mps(&self, out: &mut String) -> fmt::Result {
        for line in self.notes() {
            writeln!(out, "* {line}")?;
        }
        writeln!(out, "NAME debubble FREE\nROWS\n N obj")?;
        for row in &self.rows {
            writeln!(out, " G {}", row.name)?;
        }
        let mut columns: Vec<Vec<(usize, i64)>> = vec![Vec::new(); self.variables.len()];
        for (at, row) in self.rows.iter().enumerate() {
            for &(variable, factor) in &row.terms {
                columns[variable].push((at, factor));
            }
        }
        writeln!(out, "COLUMNS\n cost obj 1")?;
        let mut integers = false;
        for (one, column) in self.variables.iter().zip(&columns) {
            if one.is_binary && !integers {
                writeln!(out, " MARKER 'MARKER' 'INTORG'")?;
                integers = true;
            }
            for &(row, factor) in column {
                writeln!(out, " {} {} {factor}", one.name, self.rows[row].name)?;
            }
        }
        if integers {
            writeln!(out, " MARKER 'MARKER' 'INTEND'")?;
        }
        writeln!(out, "RHS")?;
        for row in self.rows.iter().filter(|row| row.least != 0) {
            writeln!(out, " RHS {} {}", row.name, row.least)?;
        }
        writeln!(out, "BOUNDS")?;
        for Variable { name, range: [low, high], is_binary } in &self.variables {
            match (is_binary, low == high) {
                (true, _) => writeln!(out, " BV BND {name}")?,
                (false, true) => writeln!(out, " FX BND {name} {low}")?,
                (false, false) => writeln!(out, " LO BND {name} {low}\n UP BND {name} {high}")?,
            }
        }
        writeln!(out, "ENDATA")
    }

    /// Comment lines at the top of either file.
    fn notes(&self) -> [String; 3] {
        [
            format!(
                "The order of passes of a pipeline, with the least cost. Times in {} ns, sizes in {} B",
                self.time_unit().0,
                self.size_unit().0
            ),
            "t_F0_3: end of F, chunk 0, microbatch 3; o_F0_3_B0_1: 1 if F0.3 runs before B0.1"
                .to_owned(),
            format!("{} binaries, {} rows", self.binaries(), self.rows.len()),
        ]
    }
}

fn not_binary(one: &&Variable) -> bool {
    !one.is_binary
}
