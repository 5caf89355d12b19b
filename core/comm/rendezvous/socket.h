// TCP sockets over IPv4 and IPv6. Whatever may take long has a deadline, and errors name the host,
// the port and the system's reason.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_SOCKET_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_SOCKET_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/status.h"

namespace dpipe {

// What waits to be sent. Taking parts from the front moves the rest rarely.
class OutgoingBytes {
 public:
  bool empty() const { return front().empty(); }
  size_t size() const { return front().size(); }
  absl::string_view front() const { return absl::string_view(bytes_).substr(sent_); }
  void Append(absl::string_view more) { bytes_.append(more.data(), more.size()); }
  void RemoveFront(size_t count) {
    sent_ += count;
    if (sent_ < bytes_.size() / 2) return;
    bytes_.erase(0, sent_);
    sent_ = 0;
  }

 private:
  std::string bytes_;
  size_t sent_ = 0;  // of bytes_
};

// Owns a file descriptor; it is non-blocking.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket();
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }

  int fd() const { return fd_; }
  // Gives the descriptor away.
  int Release() { return std::exchange(fd_, -1); }
  // -1 where it is not open.
  int port() const;
  // Numeric addresses of the two ends, "10.0.0.7" or "fd00::7"; "" where there is none.
  std::string LocalAddress() const;
  std::string PeerAddress() const;

  // Sends all of `data`, waiting where the other end does not read. Unavailable; DeadlineExceeded
  // where nothing at all could be sent for that long. A part may have been sent by then.
  absl::Status SendAll(absl::string_view data, absl::Duration deadline);

  // What a call of Receive came to.
  enum class Outcome { kData, kNothing, kClosed };
  // Appends what has arrived to `data`, without waiting; at most `max_bytes`, so that a peer that
  // sends without end does not keep the receiver from everything else. kClosed: the other end has
  // closed, or the connection is broken.
  static constexpr size_t kMostAtOnce = size_t{1} << 20;
  Outcome Receive(std::string* data, size_t max_bytes = kMostAtOnce);
  // Sends as much from the front of `bytes` as fits, without waiting, and removes it.
  Outcome SendSome(OutgoingBytes* bytes);

 private:
  int fd_ = -1;
};

// "host:port", with brackets around an IPv6 address.
std::string HostPort(const std::string& host, int port);

// Whether both ends of a connection are the same socket, which nothing can come of.
bool IsConnectedToItself(const Socket& socket);

// Tries every address of the host, a few seconds at most each, again and again until one answers or
// the time is up, which is DeadlineExceeded with the last reason. `host` is a name or an address.
absl::StatusOr<Socket> ConnectTcp(const std::string& host, int port, absl::Duration deadline);

// Listens on 127.0.0.1, for this host alone. Port 0: any free one. Unavailable if it is taken.
absl::StatusOr<Socket> ListenOnLoopback(int port = 0);

// Listens on the addresses that `host` has on this machine, and on no others. For a job on several
// hosts, a name's loopback addresses do not count, unless the name is "localhost": many systems
// give their own name 127.0.1.1, by which other hosts do not reach them. If no address is left
// (also because the name belongs to something that forwards to this machine), listens on all
// addresses. Unavailable if the port is taken at one of them, or `host` has no address.
absl::StatusOr<std::vector<Socket>> ListenAt(const std::string& host, int port,
                                             bool on_several_hosts);
// The next connection, or a socket that is not open where there is none.
Socket AcceptTcp(const Socket& listener);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_SOCKET_H_
