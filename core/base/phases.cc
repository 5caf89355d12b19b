#include "core/base/phases.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"

namespace dpipe {
namespace {

struct Recorder {
  std::atomic<bool> is_on{false};
  absl::Mutex mutex;
  Nanos start_ns ABSL_GUARDED_BY(mutex) = 0;
  std::map<std::string, PhaseTotal> totals ABSL_GUARDED_BY(mutex);
};

Recorder& OfProcess() {
  static Recorder* const recorder = new Recorder;
  return *recorder;
}

thread_local int depth = 0;

double Seconds(Nanos ns) { return 1e-9 * static_cast<double>(ns); }

}  // namespace

void RecordPhases() {
  Recorder& recorder = OfProcess();
  absl::MutexLock lock(&recorder.mutex);
  if (recorder.is_on) return;
  recorder.start_ns = MonotonicNow();
  recorder.is_on = true;
}

std::vector<PhaseTotal> RecordedPhases() {
  Recorder& recorder = OfProcess();
  std::vector<PhaseTotal> phases;
  {
    absl::MutexLock lock(&recorder.mutex);
    for (const auto& [name, total] : recorder.totals) phases.push_back(total);
  }
  // A phase and the first one in it can begin within one tick of the clock.
  std::stable_sort(phases.begin(), phases.end(), [](const PhaseTotal& a, const PhaseTotal& b) {
    return std::make_pair(a.first_ns, a.depth) < std::make_pair(b.first_ns, b.depth);
  });
  return phases;
}

std::string PhasesText(const std::vector<PhaseTotal>& phases) {
  std::string text;
  for (const PhaseTotal& phase : phases) {
    absl::StrAppend(&text,
                    absl::StrFormat("%8.2f s %8.2f s  to %8.2f s %6d x  ", Seconds(phase.total_ns),
                                    Seconds(phase.first_ns), Seconds(phase.last_ns), phase.count),
                    std::string(2 * phase.depth, ' '), phase.name, "\n");
  }
  return text;
}

Phase::Phase(absl::string_view name) : name_(name) {
  if (!OfProcess().is_on.load(std::memory_order_relaxed)) return;
  begin_ns_ = MonotonicNow();
  ++depth;
}

Phase::~Phase() {
  if (begin_ns_ < 0) return;
  --depth;
  const Nanos end_ns = MonotonicNow();
  Recorder& recorder = OfProcess();
  absl::MutexLock lock(&recorder.mutex);
  PhaseTotal& total = recorder.totals[std::string(name_)];
  if (total.count == 0) {
    total.name = std::string(name_);
    total.depth = depth;
    total.first_ns = begin_ns_ - recorder.start_ns;
  }
  total.first_ns = std::min(total.first_ns, begin_ns_ - recorder.start_ns);
  total.last_ns = std::max(total.last_ns, end_ns - recorder.start_ns);
  total.total_ns += end_ns - begin_ns_;
  ++total.count;
}

}  // namespace dpipe
