// Computing that communication of the same device slows down or holds up.
#ifndef DPIPE_CORE_EMULATION_INTERFERENCE_H_
#define DPIPE_CORE_EMULATION_INTERFERENCE_H_

#include <vector>

#include "core/base/time.h"
#include "core/emulation/network.h"
#include "core/proto/cluster.pb.h"

namespace dpipe {

// While a device sends, receives or takes part in a collective, it computes slower by the cluster's
// contention factor; where collectives use its compute units, not at all during one. What ends
// where a collective begins is not held up by it, be it of no length. Not thread-safe.
class Interference {
 public:
  Interference(const ClusterSpec& cluster, int num_ranks)
      : factor_(cluster.contention_factor() > 1 ? cluster.contention_factor() : 1),
        use_compute_(cluster.collectives_use_compute()),
        spans_(num_ranks) {}

  void AddTransfer(int rank, TimeSpan span);
  void AddCollective(int rank, TimeSpan span);

  // When a computation ends that begins at `start_ns` and takes `duration_ns` undisturbed, as far
  // as is known. Forgets what was over before: starts of a rank do not decrease. O(spans since).
  Nanos EndOf(int rank, Nanos start_ns, Nanos duration_ns);

 private:
  struct Span {
    TimeSpan time;
    bool holds_up = false;
  };
  void Add(int rank, TimeSpan span, bool holds_up);
  // How many times longer computing takes at that time, 0: it stands still; and until when it is
  // so. `ends`: nothing is left to compute, so that what only begins then does not matter.
  double SlowDown(int rank, Nanos at_ns, bool ends, Nanos* until_ns) const;

  const double factor_;
  const bool use_compute_;
  std::vector<std::vector<Span>> spans_;  // by rank, in order of their adding
};

}  // namespace dpipe

#endif  // DPIPE_CORE_EMULATION_INTERFERENCE_H_
