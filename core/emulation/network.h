// Start and end times of the messages and collectives of an emulated cluster.
//
// The rules are those of the simulator [algorithms.md §6], applied to the ranks' actions as they
// happen. A transfer occupies its sender's send engine and its receiver's receive engine for
// latency + bytes / bandwidth, and the shared links on its way (core/cost/shared_links.h) for
// theirs. Each of these serves requests in order of arrival. A collective occupies its members'
// collective streams and the shared links that it passes.
#ifndef DPIPE_CORE_EMULATION_NETWORK_H_
#define DPIPE_CORE_EMULATION_NETWORK_H_

#include <cstdint>
#include <vector>

#include "core/base/time.h"
#include "core/cost/cost_model.h"
#include "core/proto/cluster.pb.h"

namespace dpipe {

struct TimeSpan {
  Nanos start_ns = 0;
  Nanos end_ns = 0;
};

// The network of one run; not thread-safe.
class EmulatedNetwork {
 public:
  // `cost` outlives this.
  explicit EmulatedNetwork(const CostModel& cost);

  // Adds a message, whose sides have both arrived at `ready_ns`.
  TimeSpan Transfer(int from, int to, int64_t bytes, Nanos ready_ns);
  // Adds a collective over `ranks`, the last of which arrives at `ready_ns`.
  TimeSpan Collective(CollectiveKind kind, const std::vector<int>& ranks, int64_t bytes,
                      Nanos ready_ns);
  // Returns the duration of summing one number over all ranks.
  Nanos Barrier() const { return cost_.GlobalNorm(); }

 private:
  struct Engines {
    Nanos send_free = 0, recv_free = 0, collective_free = 0;
  };
  // Returns the first time from `start_ns` on at which all links of `uses_` are free.
  Nanos WhenLinksAreFree(Nanos start_ns) const;
  void OccupyLinks(Nanos start_ns);

  const CostModel& cost_;
  std::vector<Engines> ranks_;
  std::vector<Nanos> links_free_;         // by shared link
  std::vector<CostModel::LinkUse> uses_;  // of the message or collective that is being added
};

// Slowdown of computations by communication of the same device.
//
// While a device sends, receives or takes part in a collective, it computes slower by the cluster's
// contention factor; during a collective that uses its compute units, it does not compute at all. A
// computation that ends when a collective begins, even one of zero length, is not delayed by it.
// Not thread-safe.
class Interference {
 public:
  Interference(const ClusterSpec& cluster, int num_ranks)
      : factor_(cluster.contention_factor() > 1 ? cluster.contention_factor() : 1),
        use_compute_(cluster.collectives_use_compute()),
        spans_(num_ranks) {}

  void AddTransfer(int rank, TimeSpan span);
  void AddCollective(int rank, TimeSpan span);

  // Returns when a computation ends that begins at `start_ns` and takes `duration_ns` undisturbed,
  // given the spans added so far. Forgets spans that ended before `start_ns`: a rank's start times
  // do not decrease. O(spans since).
  Nanos EndOf(int rank, Nanos start_ns, Nanos duration_ns);

 private:
  struct Span {
    TimeSpan time;
    bool stops_compute = false;
  };
  void Add(int rank, TimeSpan span, bool stops_compute);
  // Returns the factor by which computing takes longer at that time, or 0 if it stops. Sets
  // `until_ns` to the time until which this holds. `ends`: nothing is left to compute, so a span
  // that begins at `at_ns` does not matter.
  double SlowDown(int rank, Nanos at_ns, bool ends, Nanos* until_ns) const;

  const double factor_;
  const bool use_compute_;
  std::vector<std::vector<Span>> spans_;  // by rank, in the order in which they were added
};

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_NETWORK_H_
