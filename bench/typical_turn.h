// The trace of a typical turn, of many that were taken: what is drawn should look like what the
// table says.
#ifndef DPIPE_BENCH_TYPICAL_TURN_H_
#define DPIPE_BENCH_TYPICAL_TURN_H_

#include <vector>

#include "core/proto/trace.pb.h"

namespace dpipe::bench {

class TypicalTurn {
 public:
  // Keeps the traces whose steps are nearest the median of the turns so far, a few of them, so that
  // memory does not grow with the turns.
  void Add(double step_ms, Trace trace);

  // The kept trace whose steps are nearest this time, the earliest of several; empty without turns.
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

#endif  // DPIPE_BENCH_TYPICAL_TURN_H_
