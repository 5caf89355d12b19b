// Where a program's start goes: how long its named phases took, for those who ask.
#ifndef DPIPE_CORE_BASE_PHASES_H_
#define DPIPE_CORE_BASE_PHASES_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/base/time.h"

namespace dpipe {

// Phases of one name, on all threads. Thread-safe.
struct PhaseTotal {
  std::string name;
  int depth = 0;  // the number of phases around the first one, on its thread
  int count = 0;
  Nanos first_ns = 0;  // when the first began, since RecordPhases
  Nanos last_ns = 0;   // when the last ended
  Nanos total_ns = 0;
};

// From now on phases are recorded. Until then a Phase costs one load of a flag.
void RecordPhases();

// Those that have ended, by the time when their first began.
std::vector<PhaseTotal> RecordedPhases();

// One line per phase, and, of those that lie in others, indented:
//   "     0.00 s     2.13 s  to   2.13 s     1 x  read the model".
std::string PhasesText(const std::vector<PhaseTotal>& phases);

// A phase that lasts as long as this object. `name` outlives it.
class Phase {
 public:
  explicit Phase(absl::string_view name);
  ~Phase();
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

 private:
  const absl::string_view name_;
  Nanos begin_ns_ = -1;  // negative: not recorded
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_PHASES_H_
