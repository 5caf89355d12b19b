// Slowdown of computations by communication of the same device.
#ifndef DPIPE_CORE_EMULATION_INTERFERENCE_H_
#define DPIPE_CORE_EMULATION_INTERFERENCE_H_

#include <vector>

#include "core/base/time.h"
#include "core/emulation/network.h"
#include "core/proto/cluster.pb.h"

namespace dpipe {

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

#endif  // DPIPE_CORE_EMULATION_INTERFERENCE_H_
