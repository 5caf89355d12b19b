// A secret that only the processes of a job know: 32 random bytes, by which they authenticate each
// other (store_frame.h).
//
// A secret never appears on a command line, in a log or in a message; these only name its source.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_JOB_SECRET_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_JOB_SECRET_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/job_address.h"

namespace dpipe {

// HMAC-SHA256 and random bytes, by libsodium.

inline constexpr size_t kHmacBytes = 32;

// Returns kHmacBytes bytes. Thread-safe, also while the process exits.
std::string HmacSha256(absl::string_view key, absl::string_view text);

// True if both have the same bytes. Takes constant time for a given size.
bool SameBytes(absl::string_view a, absl::string_view b);

// Returns `count` cryptographically secure random bytes.
std::string RandomBytes(size_t count);

// 64 hexadecimal digits; the launcher of local processes sets it (local_launcher.h).
inline constexpr char kSecretVariable[] = "DPIPE_JOB_SECRET";
// Path of a file with 64 hexadecimal digits.
inline constexpr char kSecretFileVariable[] = "DPIPE_JOB_SECRET_FILE";

class JobSecret {
 public:
  static constexpr size_t kBytes = 32;

  JobSecret() = default;  // empty
  // Returns a new random secret.
  static JobSecret Random();
  // Returns InvalidArgument if `hex` is not 64 hexadecimal digits; the message names `source`, not
  // `hex`.
  static absl::StatusOr<JobSecret> FromHex(absl::string_view hex, const std::string& source);

  bool empty() const { return bytes_.empty(); }
  std::string Hex() const;
  // Its source, for messages: "DPIPE_JOB_SECRET", "the file /home/ann/.dpipe/job_secret".
  const std::string& source() const { return source_; }
  // Proves knowledge of the secret: returns the HMAC-SHA256 of `text`, kHmacBytes long
  // (HmacSha256).
  std::string Sign(absl::string_view text) const;

 private:
  JobSecret(std::string bytes, std::string source)
      : bytes_(std::move(bytes)), source_(std::move(source)) {}

  std::string bytes_;  // kBytes, or empty
  std::string source_;
};

// Reads a file that holds 64 hexadecimal digits. Returns FailedPrecondition, with the command that
// fixes it, unless it is a regular file of this user that no other user can read or write.
absl::StatusOr<JobSecret> ReadSecretFile(const std::string& path);

// Returns the secret in the file FOLDER/job_secret. Creates both, for this user alone, if they do
// not exist. Processes that do so at the same time, on one host or several, all get the same
// secret. Returns FailedPrecondition if other users can access the folder or the file.
absl::StatusOr<JobSecret> ReadOrMakeSecretFile(const std::string& folder);

// Returns the secret of a job's process from the first of these sources that exists:
//   1. the file `secret_file`, unless that is empty;
//   2. the variable DPIPE_JOB_SECRET;
//   3. the file that the variable DPIPE_JOB_SECRET_FILE names;
//   4. this user's own file ~/.dpipe/job_secret, created when first needed. Processes on several
//      hosts share it if they share the home folder;
//   5. for processes on one host whose user has no home folder: the file
//      /tmp/dpipe-USER_ID/job_secret.
// Errors name the source and the remedy. Several hosts without any of these are an error too.
absl::StatusOr<JobSecret> FindJobSecret(const JobAddress& address, const std::string& secret_file,
                                        const Environment& environment);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_JOB_SECRET_H_
