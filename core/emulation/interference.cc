#include "core/emulation/interference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpipe {

void Interference::AddTransfer(int rank, TimeSpan span) {
  if (factor_ > 1) Add(rank, span, /*stops_compute=*/false);
}

void Interference::AddCollective(int rank, TimeSpan span) {
  if (factor_ > 1 || use_compute_) Add(rank, span, use_compute_);
}

void Interference::Add(int rank, TimeSpan span, bool stops_compute) {
  if (span.start_ns < span.end_ns) spans_[rank].push_back({span, stops_compute});
}

double Interference::SlowDown(int rank, Nanos at_ns, bool ends, Nanos* until_ns) const {
  double factor = 1;
  *until_ns = std::numeric_limits<Nanos>::max();
  for (const Span& span : spans_[rank]) {
    if (span.time.end_ns <= at_ns) continue;
    if (span.time.start_ns > at_ns || (ends && span.time.start_ns == at_ns)) {
      *until_ns = std::min(*until_ns, span.time.start_ns);
      continue;
    }
    *until_ns = std::min(*until_ns, span.time.end_ns);
    if (span.stops_compute) factor = 0;
    if (factor > 0) factor = factor_;
  }
  return factor;
}

Nanos Interference::EndOf(int rank, Nanos start_ns, Nanos duration_ns) {
  std::vector<Span>& spans = spans_[rank];
  spans.erase(std::remove_if(spans.begin(), spans.end(),
                             [start_ns](const Span& span) { return span.time.end_ns <= start_ns; }),
              spans.end());
  if (spans.empty()) return start_ns + duration_ns;
  double remaining = static_cast<double>(duration_ns);
  for (Nanos at_ns = start_ns;;) {
    Nanos until_ns = 0;
    const double factor = SlowDown(rank, at_ns, /*ends=*/remaining == 0, &until_ns);
    if (factor > 0) {
      const Nanos end_ns = at_ns + static_cast<Nanos>(std::ceil(remaining * factor));
      if (end_ns <= until_ns) return end_ns;
      remaining = std::max(0.0, remaining - static_cast<double>(until_ns - at_ns) / factor);
    }
    at_ns = until_ns;
  }
}

}  // namespace dpipe
