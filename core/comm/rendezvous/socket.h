// TCP sockets over IPv4 and IPv6. Operations that may take long have a deadline, and errors name
// the host, the port and the system's reason.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_SOCKET_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_SOCKET_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "core/base/status.h"
#include "core/base/time.h"

namespace dpipe {

// A time limit that is independent of the time of day.
class Deadline {
 public:
  // Starts now.
  explicit Deadline(absl::Duration limit) : limit_(limit) {}

  // Returns the time left; negative once the limit has passed.
  absl::Duration left() const { return limit_ - absl::Nanoseconds(MonotonicNow() - begin_ns_); }
  bool passed() const { return left() <= absl::ZeroDuration(); }

 private:
  absl::Duration limit_;
  Nanos begin_ns_ = MonotonicNow();
};

// Bytes waiting to be sent. Removing bytes from the front rarely moves the rest.
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

// Owns a non-blocking file descriptor.
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
  // Gives up ownership of the descriptor.
  int Release() { return std::exchange(fd_, -1); }
  // Returns -1 if the socket is not open.
  int port() const;
  // Return the numeric addresses of the two ends, "10.0.0.7" or "fd00::7"; "" if there is none.
  std::string LocalAddress() const;
  std::string PeerAddress() const;

  // Sends all of `data`, and waits while the other end does not read. Returns Unavailable if the
  // connection breaks, and DeadlineExceeded if no bytes could be sent for as long as `deadline`.
  // Part of the data may have been sent before an error.
  absl::Status SendAll(absl::string_view data, absl::Duration deadline);

  // Result of Receive and SendSome.
  enum class Outcome { kData, kNothing, kClosed };
  // Appends received bytes to `data`, without waiting. Appends at most `max_bytes`, so that a peer
  // that sends endlessly does not starve the receiver's other work. Returns kClosed if the other
  // end has closed or the connection is broken.
  static constexpr size_t kMaxAtOnce = size_t{1} << 20;
  Outcome Receive(std::string* data, size_t max_bytes = kMaxAtOnce);
  // Sends as much from the front of `bytes` as possible without waiting, and removes it.
  Outcome SendSome(OutgoingBytes* bytes);

 private:
  int fd_ = -1;
};

// Returns "host:port", with brackets around an IPv6 address.
std::string HostPort(const std::string& host, int port);

// True if both ends of a connection are the same socket, which makes it useless.
bool IsConnectedToItself(const Socket& socket);

// Tries every address of the host, a few seconds at most each, and repeats until one answers.
// Returns DeadlineExceeded with the last reason when the time is up. `host` is a name or an
// address.
absl::StatusOr<Socket> ConnectTcp(const std::string& host, int port, absl::Duration deadline);

// Listens on 127.0.0.1, for this host alone. Port 0 means any free one. Returns Unavailable if the
// port is taken.
absl::StatusOr<Socket> ListenOnLoopback(int port = 0);

// Listens on the addresses that `host` has on this machine, and on no others. For a job on several
// hosts, a name's loopback addresses are skipped, unless the name is "localhost": many systems map
// their own name to 127.0.1.1, at which other hosts cannot reach them. If no address is left (for
// example because the name belongs to a machine that forwards to this one), listens on all
// addresses. Returns Unavailable if the port is taken at one of them, or `host` has no address.
absl::StatusOr<std::vector<Socket>> ListenAt(const std::string& host, int port,
                                             bool on_several_hosts);
// Returns the next connection, or a socket that is not open if there is none.
Socket AcceptTcp(const Socket& listener);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_SOCKET_H_
