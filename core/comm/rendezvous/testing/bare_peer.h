// For tests: one end of a connection between a store and a process, of which the test controls
// every byte sent.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_TESTING_BARE_PEER_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_TESTING_BARE_PEER_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "core/comm/rendezvous/job_secret.h"
#include "core/comm/rendezvous/socket.h"
#include "core/comm/rendezvous/store/store_frame.h"

namespace dpipe {

class BarePeer {
 public:
  // Connects to the store on this host and proves that it knows the secret.
  static BarePeer AsProcess(int port, const JobSecret& secret);
  // Does the same, then joins as "rank N (pid 7 on node2)".
  static BarePeer AsJoined(int port, const JobSecret& secret, int process, int num_processes);
  // Accepts a process and completes the challenge with it.
  static BarePeer AsStore(const Socket& listener, const JobSecret& secret);

  Socket& socket() { return socket_; }
  // Encodes and signs the message as the next one.
  std::string Encode(const StoreMessage& message) { return writer_.Encode(message); }
  void Say(const StoreMessage& message) { SayBytes(Encode(message)); }
  void SayBytes(absl::string_view bytes);
  void Close() { socket_ = Socket(); }

 private:
  Socket socket_;
  FrameWriter writer_;
};

// Blocks until there is a connection.
Socket AcceptOne(const Socket& listener);

// Returns the bytes received until the other end closes, or `max_bytes` of them. Ends the test if
// nothing arrives for a minute.
std::string ReadUntilClosed(Socket* socket, size_t max_bytes = Socket::kMaxAtOnce);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_TESTING_BARE_PEER_H_
