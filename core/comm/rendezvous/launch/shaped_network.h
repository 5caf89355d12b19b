// Hosts that are network namespaces of this machine, joined by links that the kernel shapes. For
// measuring how programs behave on a slow network without having one.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_SHAPED_NETWORK_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_SHAPED_NETWORK_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"

namespace dpipe {

// Returns the bits per second of "100mbit", "2.5gbit" and the like; 0 for "unshaped". Returns
// InvalidArgument outside 1 Mb/s to 1,000 Gb/s.
absl::StatusOr<double> ParseLinkSpeed(const std::string& text);

// Returns "100 Mb/s" or "2.5 Gb/s"; "unshaped" for 0.
std::string LinkSpeedText(double bits_per_second);

// A star: every host has one link, to a switch. A token bucket bounds each direction of each link.
// Everything disappears with this object, and also when the process is killed.
class ShapedNetwork {
 public:
  // `bits_per_second` 0: links are not shaped. Returns FailedPrecondition, with the reason and the
  // way out, if this process may not create namespaces or a program of iproute2 is missing. Starts
  // processes, so call it before creating any thread.
  static absl::StatusOr<std::unique_ptr<ShapedNetwork>> Create(int num_hosts,
                                                               double bits_per_second);
  ~ShapedNetwork();
  ShapedNetwork(const ShapedNetwork&) = delete;
  ShapedNetwork& operator=(const ShapedNetwork&) = delete;

  int num_hosts() const { return static_cast<int>(holders_.size()) - 1; }
  std::string Address(int host) const;  // numeric, IPv4

  // Moves the calling thread to the host's network. Only open sockets stay where they are.
  absl::Status Enter(int host) const;
  // Moves it back to the network in which the object was created.
  absl::Status Leave() const;

 private:
  ShapedNetwork() = default;
  absl::Status Build(int num_hosts, double bits_per_second);

  int own_network_ = -1;        // file descriptor
  std::vector<pid_t> holders_;  // processes that keep a namespace alive: hosts, then the switch
};

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_LAUNCH_SHAPED_NETWORK_H_
