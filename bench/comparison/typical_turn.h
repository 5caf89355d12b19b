// Selects the trace of a typical turn, so that a drawn timeline agrees with the table's medians.
#ifndef DPIPE_BENCH_COMPARISON_TYPICAL_TURN_H_
#define DPIPE_BENCH_COMPARISON_TYPICAL_TURN_H_

#include <vector>

#include "core/proto/trace.pb.h"

namespace dpipe::bench {

class TypicalTurn {
 public:
  // Adds a turn. Keeps only a few traces, those with steps nearest to the median so far, so that
  // memory does not grow with the number of turns.
  void Add(double step_ms, Trace trace);

  // Returns the kept trace whose steps are nearest to this time, the earliest if several are. Empty
  // if there were no turns.
  Trace Take(double step_ms);

 private:
  struct Turn {
    double step_ms = 0;
    Trace trace;
  };

  std::vector<double> all_step_ms_;
  std::vector<Turn> kept_;
};

}  // namespace dpipe::bench

#endif  // DPIPE_BENCH_COMPARISON_TYPICAL_TURN_H_
