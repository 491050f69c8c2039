//! The set-ups that a question tries.

use pipeline::LayerLayout;
use plan::{Cluster, Options, Setup};

use crate::checked::Question;

impl Question {
    /// The set-ups that are tried on `cluster`: the one that is asked for, or those of the search that the
    /// framework runs; `None` if there are too many.
    pub fn setups(&self, cluster: &Cluster) -> Option<Vec<Setup>> {
        if let Some(asked) = &self.asked {
            return Some(vec![asked.on(cluster)]);
        }
        let space = self.search.space(&self.model, cluster, self.modules(cluster));
        let mut setups = space.setups(cluster)?;
        setups.extend(
            self.search.in_halves(&space).and_then(|own| own.setups(cluster)).into_iter().flatten(),
        );
        let runs = |setup: &Setup| self.framework.runs(setup, &self.recipe);
        setups.retain(|setup| runs(setup) && self.search.has_chunks(setup));
        for setup in &mut setups {
            *setup = self.with_software(*setup, cluster);
        }
        Some(setups)
    }

    /// The layers of each chunk, if they are given.
    #[must_use]
    pub const fn layout(&self) -> Option<&LayerLayout> {
        match &self.asked {
            Some(asked) => asked.layout.as_ref(),
            None => self.search.layout.as_ref(),
        }
    }

    /// `setup` on `cluster` with the software that a search turns on for it, if an order may be searched for it.
    #[must_use]
    pub fn with_order_searched(&self, setup: Setup, cluster: &Cluster) -> Option<Setup> {
        let plain = Setup { options: Options::default(), ..setup };
        let may = self.asked.is_none() && self.search.searched;
        let may = may && self.framework.runs(&plain, &self.recipe);
        let may = may && self.search.has_chunks(&plain);
        may.then(|| self.with_software(plain, cluster))
    }

    /// Whether set-ups with published schedules are plans: always, unless orders are to be searched alone.
    #[must_use]
    pub const fn has_published(&self) -> bool {
        self.search.published
    }

    /// Whether layers are dealt together with orders that are searched: unless the question says how they are.
    #[must_use]
    pub const fn deals_layers(&self) -> bool {
        self.search.deals
    }

    /// Whether one set-up is asked for, to be answered whether it fits or not.
    #[must_use]
    pub const fn is_of_one(&self) -> bool {
        self.asked.is_some()
    }
}
