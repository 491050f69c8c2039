//! Some questions of a sweep in a row: those that share an order and differ in times are timed at once.

use std::ops::Range;

use cases::{Case, Next, ScheduleSource};
use pipeline::Costs;
use question::sweep::columns::Columns;
use question::sweep::grid::{Grid, GridQuestion, Questions};
use question::{Context, Diagnostic};
use sim::lanes::{CompiledOrder, SCENARIOS, Scenarios, StepTimes};
use sim::{Details, Replay};

use super::row;
use crate::outcome::Outcome;

/// The most passes of an order that is kept for the next questions: a few megabytes for each schedule.
const MOST_PASSES: usize = 1 << 16;

/// The rows of `questions`, as CSV.
pub(super) fn rows(
    context: &Context<'_>,
    grid: &Grid,
    columns: &Columns,
    questions: Range<u64>,
) -> Vec<u8> {
    let mut block = Block::new(context, grid, columns);
    questions.for_each(|index| block.add(index));
    block.filled()
}

/// The rows of a block of questions, as they are made.
struct Block<'a> {
    context: &'a Context<'a>,
    grid: &'a Grid,
    columns: &'a Columns,
    questions: Questions<'a>,
    replay: Replay,
    /// For each rule the last order that was made for it.
    open: Vec<Open<'a>>,
    /// The results of all orders in lanes.
    orders: Vec<Timed>,
    /// Rows, some without the times and the memory of a step.
    text: Vec<u8>,
    gaps: Vec<Gap>,
}

/// A row that ends before the results of a step.
struct Gap {
    index: u64,
    /// Its place in the text.
    row: Range<usize>,
    /// The number of its order, and its number among the times of that.
    of: (usize, usize),
}

/// An order that the next questions of its rule may share.
struct Open<'a> {
    rule: &'a ScheduleSource,
    case: Case,
    /// The last run of questions that share it.
    run: u64,
    /// The parts of each row before and after its times.
    around: [Vec<u8>; 2],
    /// Its lanes and the number of its results, once a second question shares it.
    lanes: Option<(Scenarios<CompiledOrder>, usize)>,
    /// Number of questions in the lanes.
    waiting: usize,
}

/// The results of an order in lanes.
struct Timed {
    around: [Vec<u8>; 2],
    /// By question; nothing where lanes do not count them exactly.
    times: Vec<Option<StepTimes>>,
}

impl<'a> Block<'a> {
    fn new(context: &'a Context<'a>, grid: &'a Grid, columns: &'a Columns) -> Self {
        let (questions, replay, text) = (Questions::of(grid), Replay::new(), Vec::new());
        let (open, orders, gaps) = (Vec::new(), Vec::new(), Vec::new());
        Self { context, grid, columns, questions, replay, open, orders, text, gaps }
    }

    /// Adds the row of question number `index`, perhaps with a gap.
    fn add(&mut self, index: u64) {
        let (context, grid, columns) = (self.context, self.grid, self.columns);
        let question = match self.questions.get(context, index) {
            Ok(question) => question,
            Err(error) => return row::unread(columns, index, &error, &mut self.text),
        };
        let begin = self.text.len();
        row::begin(grid, columns, index, &question, &mut self.text);
        let at = self.open.iter().position(|one| std::ptr::eq(one.rule, question.rule));
        let open = at.map(|at| &self.open[at]);
        let key = grid.axes.last().filter(|_| open.is_some_and(|one| one.run == question.run));
        let known = (open.map(|one| &one.case), key.map(|axis| &axis.key[..]));
        let next = cases::next(context, &grid.scenario, &question.setting, question.rule, known);
        let made = match next {
            Ok(Next::Case(case)) => Ok(*case),
            Ok(Next::Costs(costs)) => {
                let open = at.map(|at| &mut self.open[at]);
                let taken = open.and_then(|open| {
                    open.run = question.run;
                    open.take(&costs, &mut self.orders)
                });
                if let Some(of) = taken {
                    return self.gaps.push(Gap { index, row: begin..self.text.len(), of });
                }
                cases::case(context, &grid.scenario, &question.setting, question.rule)
            }
            Err(error) => Err(error),
        };
        self.answer(&question, made, at);
    }

    /// Ends the row of `question`, and keeps its order for the next ones.
    fn answer(
        &mut self,
        question: &GridQuestion<'a>,
        case: Result<Case, Diagnostic>,
        at: Option<usize>,
    ) {
        let outcome = case.and_then(|case| {
            let mut outcome = Outcome::of(case, Details::default(), &mut self.replay)?;
            outcome.run_replicas(|| {}, || false)?;
            Ok(outcome)
        });
        row::end(self.columns, question, outcome.as_ref(), &mut self.text);
        let Ok(outcome) = outcome else { return };
        if let Some(at) = at {
            self.open.swap_remove(at).close(&mut self.orders);
        }
        let (case, schedule) = (&outcome.case, &outcome.case.schedule);
        // An order of fewer microbatches has no lanes for all of them.
        let is_whole = case.repeating.is_none() && case.passes() <= MOST_PASSES;
        if is_whole && CompiledOrder::is_possible(schedule) {
            let around = row::around_times(self.columns, &outcome);
            let (rule, case, run) = (question.rule, outcome.case, question.run);
            self.open.push(Open { rule, case, run, around, lanes: None, waiting: 0 });
        }
    }

    /// The rows with what stands in their gaps.
    fn filled(mut self) -> Vec<u8> {
        let (context, grid, columns) = (self.context, self.grid, self.columns);
        self.open.drain(..).for_each(|open| open.close(&mut self.orders));
        let mut rows = Vec::with_capacity(self.text.len() + self.gaps.len() * 128);
        let mut done = 0;
        for Gap { index, row, of: (order, number) } in self.gaps {
            let order = &self.orders[order];
            let [before, after] = &order.around;
            match &order.times[number] {
                Some(times) => {
                    rows.extend(&self.text[done..row.end]);
                    rows.extend(before);
                    row::add_times(&mut rows, times);
                    rows.extend(after);
                }
                None => {
                    rows.extend(&self.text[done..row.start]);
                    rows.extend(self::rows(context, grid, columns, index..index + 1));
                }
            }
            done = row.end;
        }
        rows.extend(&self.text[done..]);
        rows
    }
}

impl Open<'_> {
    /// Takes a question of this order under `costs`: the number of its order among `orders` and its number there; nothing
    /// where the order has no lanes.
    fn take(&mut self, costs: &Costs, orders: &mut Vec<Timed>) -> Option<(usize, usize)> {
        if self.lanes.is_none() {
            let order = CompiledOrder::new(&self.case.schedule)?;
            let around = std::mem::take(&mut self.around);
            self.lanes = Some((Scenarios::new(order), orders.len()));
            orders.push(Timed { around, times: Vec::new() });
        }
        let (lanes, at) = self.lanes.as_mut()?;
        if !lanes.set(self.waiting, costs).is_ok_and(|has_times| has_times) {
            return None;
        }
        let times = &mut orders[*at].times;
        let number = times.len() + self.waiting;
        self.waiting += 1;
        if self.waiting == SCENARIOS {
            times.extend(lanes.replay());
            self.waiting = 0;
        }
        Some((*at, number))
    }

    /// Times the questions that still wait.
    fn close(mut self, orders: &mut [Timed]) {
        if let Some((lanes, at)) = &mut self.lanes {
            orders[*at].times.extend(&lanes.replay()[..self.waiting]);
        }
    }
}

#[cfg(test)]
mod tests;
