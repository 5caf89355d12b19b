#include "core/comm/rendezvous/job_secret.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/comm/rendezvous/socket.h"

namespace dpipe {

namespace {

static_assert(kHmacBytes == crypto_auth_hmacsha256_BYTES);

void InitialiseSodium() {
  static const int state = sodium_init();  // -1 if it failed
  DPIPE_CHECK_GE(state, 0) << "libsodium cannot be used: the system has no random bytes";
}

const unsigned char* Unsigned(absl::string_view bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

std::string HmacSha256(absl::string_view key, absl::string_view text) {
  InitialiseSodium();
  crypto_auth_hmacsha256_state state;
  crypto_auth_hmacsha256_init(&state, Unsigned(key), key.size());
  crypto_auth_hmacsha256_update(&state, Unsigned(text), text.size());
  std::string mac(kHmacBytes, '\0');
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(&mac[0]));
  sodium_memzero(&state, sizeof(state));
  return mac;
}

bool SameBytes(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string RandomBytes(size_t count) {
  InitialiseSodium();
  std::string bytes(count, '\0');
  randombytes_buf(&bytes[0], count);
  return bytes;
}

namespace {

// Command that creates a secret for several hosts.
constexpr char kHowToMake[] =
    "export DPIPE_JOB_SECRET=$(openssl rand -hex 32), once, and give it to the processes of all "
    "hosts";
constexpr size_t kMaxFileBytes = 4096;
// A file created by another host may take a moment to appear on a network file system.
constexpr int kMaxAttempts = 50;
constexpr absl::Duration kBetweenAttempts = absl::Milliseconds(100);

absl::Status SystemError(const std::string& what) {
  return absl::FailedPreconditionError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// True if only the owner has any permission.
bool IsPrivate(const struct stat& status) { return (status.st_mode & 077) == 0; }

absl::Status CheckOwner(const struct stat& status, const std::string& path) {
  if (status.st_uid == geteuid()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path, " belongs to user ", status.st_uid,
                                                    ", but must belong to this user, ", geteuid()));
}

absl::StatusOr<std::string> ReadAtMost(int fd, size_t max_bytes) {
  std::string text(max_bytes, '\0');
  size_t size = 0;
  while (size < max_bytes) {
    const ssize_t count = read(fd, &text[size], max_bytes - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return absl::UnavailableError(std::strerror(errno));
    if (count == 0) break;
    size += count;
  }
  text.resize(size);
  return text;
}

// Returns NotFound if there is no such file.
absl::StatusOr<JobSecret> ReadIfThere(const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const Socket file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (file.fd() < 0 && errno == ENOENT) return absl::NotFoundError(path);
  const std::string named = absl::StrCat("the file ", path, " of the job's secret");
  if (file.fd() < 0) return SystemError(absl::StrCat(named, " cannot be read"));
  struct stat status;
  if (fstat(file.fd(), &status) != 0) return SystemError(absl::StrCat(named, " cannot be read"));
  if (!S_ISREG(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(named, " is not a regular file"));
  }
  DPIPE_RETURN_IF_ERROR(CheckOwner(status, named));
  if (!IsPrivate(status)) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s can be read or written by others (mode %03o, must be 600); create a new "
        "one: (umask 077; openssl rand -hex 32 > FILE)",
        named, status.st_mode & 0777));
  }
  const auto text = ReadAtMost(file.fd(), kMaxFileBytes);
  if (!text.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat(named, " cannot be read: ", text.status().message()));
  }
  return JobSecret::FromHex(absl::StripAsciiWhitespace(*text), absl::StrCat("the file ", path));
}

// Fails if the file exists, so that the first of several processes decides.
absl::Status MakeFile(const std::string& path) {
  const std::string unfinished =
      absl::StrCat(path, ".", absl::BytesToHexString(RandomBytes(8)), ".new");
  const std::string text = JobSecret::Random().Hex() + "\n";
  {
    const Socket file(
        open(unfinished.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.fd() < 0) return SystemError(absl::StrCat(unfinished, " cannot be made"));
    if (write(file.fd(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        fsync(file.fd()) != 0) {
      const absl::Status status = SystemError(absl::StrCat(unfinished, " cannot be written"));
      unlink(unfinished.c_str());
      return status;
    }
  }
  // Atomic, and never overwrites another process's file.
  const bool made = link(unfinished.c_str(), path.c_str()) == 0;
  const absl::Status status =
      made ? absl::OkStatus() : SystemError(absl::StrCat(path, " cannot be made"));
  const bool is_there = !made && errno == EEXIST;
  unlink(unfinished.c_str());
  return is_there ? absl::AlreadyExistsError(path) : status;
}

absl::Status MakePrivateFolder(const std::string& folder) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return SystemError(absl::StrCat("the folder ", folder, " cannot be made"));
  }
  const std::string named = absl::StrCat("the folder ", folder, " of the job's secret");
  struct stat status;
  if (lstat(folder.c_str(), &status) != 0) return SystemError(named);
  if (!S_ISDIR(status.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(named, " is not a folder"));
  }
  DPIPE_RETURN_IF_ERROR(CheckOwner(status, named));
  if (IsPrivate(status)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(named, " can be used by others; run chmod 700 on it"));
}

}  // namespace

JobSecret JobSecret::Random() { return JobSecret(RandomBytes(kBytes), "the launcher"); }

absl::StatusOr<JobSecret> JobSecret::FromHex(absl::string_view hex, const std::string& source) {
  if (hex.size() != 2 * kBytes || !std::all_of(hex.begin(), hex.end(), absl::ascii_isxdigit)) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, " has ", hex.size(), " characters, but must have ", 2 * kBytes,
                     " hexadecimal digits; make one with openssl rand -hex ", kBytes));
  }
  return JobSecret(absl::HexStringToBytes(hex), source);
}

std::string JobSecret::Hex() const { return absl::BytesToHexString(bytes_); }

std::string JobSecret::Sign(absl::string_view text) const { return HmacSha256(bytes_, text); }

absl::StatusOr<JobSecret> ReadSecretFile(const std::string& path) {
  const auto secret = ReadIfThere(path);
  if (!absl::IsNotFound(secret.status())) return secret;
  return absl::FailedPreconditionError(absl::StrCat(
      "the file ", path, " of the job's secret does not exist; create it: (umask 077; ",
      "openssl rand -hex 32 > FILE)"));
}

absl::StatusOr<JobSecret> ReadOrMakeSecretFile(const std::string& folder) {
  DPIPE_RETURN_IF_ERROR(MakePrivateFolder(folder));
  const std::string path = folder + "/job_secret";
  for (int attempt = 1;; ++attempt) {
    const auto secret = ReadIfThere(path);
    if (!absl::IsNotFound(secret.status())) return secret;
    const absl::Status made = MakeFile(path);
    if (!made.ok() && (!absl::IsAlreadyExists(made) || attempt == kMaxAttempts)) return made;
    if (!made.ok()) absl::SleepFor(kBetweenAttempts);
  }
}

absl::StatusOr<JobSecret> FindJobSecret(const JobAddress& address, const std::string& secret_file,
                                        const Environment& environment) {
  const auto variable = [&](const char* name) -> std::string {
    const char* value = environment(name);
    return value == nullptr ? "" : value;
  };
  if (!secret_file.empty()) return ReadSecretFile(secret_file);
  const std::string hex = variable(kSecretVariable);
  if (!hex.empty()) return JobSecret::FromHex(hex, kSecretVariable);
  const std::string named_file = variable(kSecretFileVariable);
  if (!named_file.empty()) return ReadSecretFile(named_file);
  const std::string home = variable("HOME");
  const bool has_home = !home.empty() && home[0] == '/' && access(home.c_str(), W_OK | X_OK) == 0;
  if (has_home) return ReadOrMakeSecretFile(home + "/.dpipe");
  if (address.num_local == address.num_processes) {
    return ReadOrMakeSecretFile(absl::StrCat("/tmp/dpipe-", geteuid()));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "the processes of this job on several hosts have no secret, and no home folder to create one "
      "in; run ",
      kHowToMake));
}

}  // namespace dpipe
