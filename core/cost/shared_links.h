// The links of a cluster that several devices share, and the messages that pass them.
//
// A node's network interface carries what the devices attached to it exchange with other nodes; its
// two directions are two links. ClusterSpec.shared_links adds links within nodes. A link serves one
// message or collective at a time: each occupies it for its bytes over the link's bandwidth, and
// may itself take longer if another link on its way is slower.                       [algorithms.md
// §6]
#ifndef DPIPE_CORE_COST_SHARED_LINKS_H_
#define DPIPE_CORE_COST_SHARED_LINKS_H_

#include <string>
#include <utility>
#include <vector>

#include "core/proto/cluster.pb.h"

namespace dpipe {

class SharedLinks {
 public:
  SharedLinks() = default;
  // `cluster` is valid (validate.h).
  explicit SharedLinks(const ClusterSpec& cluster);

  int size() const { return size_; }
  // Links before this one are interfaces; the others are within nodes.
  int num_interface_links() const { return num_interface_links_; }
  // Returns a name such as "interface 3 out" or "root of devices 4-7".
  std::string NameOf(int link) const;
  double bandwidth_bytes_per_s(int link) const;

  // Returns the links that a message passes, the interfaces first. The ranks must differ.
  std::vector<int> OnPath(int from, int to) const;
  // Appends both directions of the interfaces of the ranks, each once.
  void AppendInterfacesOf(const std::vector<int>& ranks, std::vector<int>* links) const;

  // A link within a node, and the number of a ring's edges that pass it.
  struct RingUse {
    int link = 0;
    int edges = 0;
  };
  // Returns the links within nodes that a ring over the ranks, in rank order, passes.
  std::vector<RingUse> OfRing(std::vector<int> ranks) const;

 private:
  // The interfaces, or the links of one SharedLink of the cluster, over all nodes.
  struct Level {
    std::string name;
    int first_link = 0;
    int devices = 1;                  // that share one
    bool carries_everything = false;  // if not, there are an outgoing and an incoming link of each
    double bandwidth_bytes_per_s = 0;
  };
  const Level& LevelOf(int link) const;

  int size_ = 0;
  int num_interface_links_ = 0;
  int devices_per_node_ = 1;
  std::vector<Level> levels_;  // the interfaces first
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COST_SHARED_LINKS_H_
