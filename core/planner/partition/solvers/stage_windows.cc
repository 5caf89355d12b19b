#include "core/planner/partition/solvers/stage_windows.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/bytes.h"

namespace dpipe {

StageWindows::StageWindows(const PartitionProblem& problem)
    : problem_(problem),
      num_layers_(problem.costs->num_layers()),
      num_stages_(problem.num_stages()),
      plain_(SeatsOfDevices(problem, false)),
      again_(SeatsOfDevices(problem, true)),
      last_plain_end_(num_stages_, std::vector<int>(num_layers_)),
      last_end_(last_plain_end_) {
  for (int s = 0; s < num_stages_; ++s) {
    for (int i = 0; i < num_layers_; ++i) {
      const int last = num_layers_ - (num_stages_ - 1 - s);
      const bool plain = problem.recompute != Recompute::kFull;
      last_plain_end_[s][i] = plain ? LastThatFits(s, plain_[s], i, last) : i;
      const bool again = problem.recompute != Recompute::kNone && last_plain_end_[s][i] < last;
      last_end_[s][i] = again ? LastThatFits(s, again_[s], i, last) : last_plain_end_[s][i];
      last_end_[s][i] = std::max(last_end_[s][i], last_plain_end_[s][i]);
    }
  }
}

bool StageWindows::Fits(int s, const DeviceSeat& seat, LayerRange layers) const {
  const int64_t limit = problem_.costs->MemoryLimitBytes(seat);
  return limit == 0 || problem_.costs->MemoryBytes(s, seat, {{s, 0, layers}}) <= limit;
}

int StageWindows::LastThatFits(int s, const DeviceSeat& seat, int i, int last) const {
  if (i >= last || Fits(s, seat, {i, last})) return std::max(i, last);
  int fits = i, exceeds = last;
  while (exceeds - fits > 1) {
    const int middle = (fits + exceeds) / 2;
    (Fits(s, seat, {i, middle}) ? fits : exceeds) = middle;
  }
  return fits;
}

absl::Status StageWindows::NothingFitsError() const {
  // The minimum, over all partitions, of the largest (excess, limit) of a device.
  using Excess = std::pair<int64_t, int64_t>;
  const Excess none = {std::numeric_limits<int64_t>::max(), 0};
  std::vector<Excess> next(num_layers_ + 1, none);
  next[num_layers_] = {std::numeric_limits<int64_t>::min(), 0};
  for (int s = num_stages_ - 1; s >= 0; --s) {
    const DeviceSeat& seat = problem_.recompute == Recompute::kNone ? plain_[s] : again_[s];
    const int64_t limit = problem_.costs->MemoryLimitBytes(seat);
    std::vector<Excess> best(num_layers_ + 1, none);
    for (int i = 0; i < num_layers_; ++i) {
      for (int j = i + 1; j <= num_layers_; ++j) {
        if (next[j] == none) continue;
        const int64_t need = problem_.costs->MemoryBytes(s, seat, {{s, 0, {i, j}}});
        const Excess here = {limit == 0 ? std::numeric_limits<int64_t>::min() : need - limit,
                             limit};
        if (here >= best[i]) break;  // needs only grow with j
        best[i] = std::min(best[i], std::max(next[j], here));
      }
    }
    next = std::move(best);
  }
  return absl::ResourceExhaustedError(absl::StrCat(
      "no partition into ", num_stages_, " stages fits in memory: the most even one needs ",
      FormatBytes(next[0].first + next[0].second), " on a device and the limit is ",
      FormatBytes(next[0].second)));
}

}  // namespace dpipe
