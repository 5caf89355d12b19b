#include "core/emulation/network.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dpipe {

EmulatedNetwork::EmulatedNetwork(const CostModel& cost)
    : cost_(cost), ranks_(cost.num_devices()), links_free_(cost.shared_links().size()) {}

Nanos EmulatedNetwork::WhenLinksAreFree(Nanos start_ns) const {
  for (const CostModel::LinkUse& use : uses_) {
    start_ns = std::max(start_ns, links_free_[use.link]);
  }
  return start_ns;
}

void EmulatedNetwork::OccupyLinks(Nanos start_ns) {
  for (const CostModel::LinkUse& use : uses_) links_free_[use.link] = start_ns + use.duration_ns;
}

TimeSpan EmulatedNetwork::Transfer(int from, int to, int64_t bytes, Nanos ready_ns) {
  Engines& sender = ranks_[from];
  Engines& receiver = ranks_[to];
  uses_.clear();
  cost_.AppendLinksOf(from, to, bytes, &uses_);
  TimeSpan span;
  span.start_ns = WhenLinksAreFree(std::max({ready_ns, sender.send_free, receiver.recv_free}));
  span.end_ns = span.start_ns + cost_.Transfer(from, to, bytes);
  sender.send_free = receiver.recv_free = span.end_ns;
  OccupyLinks(span.start_ns);
  return span;
}

TimeSpan EmulatedNetwork::Collective(CollectiveKind kind, const std::vector<int>& ranks,
                                     int64_t bytes, Nanos ready_ns) {
  uses_.clear();
  const Nanos duration = cost_.Collective(kind, ranks, bytes, &uses_);
  TimeSpan span{ready_ns, 0};
  for (int rank : ranks) span.start_ns = std::max(span.start_ns, ranks_[rank].collective_free);
  span.start_ns = WhenLinksAreFree(span.start_ns);
  span.end_ns = span.start_ns + duration;
  for (int rank : ranks) ranks_[rank].collective_free = span.end_ns;
  OccupyLinks(span.start_ns);
  return span;
}

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
