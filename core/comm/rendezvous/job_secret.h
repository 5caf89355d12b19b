// What the processes of a job know and nobody else does: 32 random bytes, by which they recognise
// each other (store_challenge.h).
//
// A secret is never on a command line, in a log or in a message; only its source is named there.
#ifndef DPIPE_CORE_COMM_RENDEZVOUS_JOB_SECRET_H_
#define DPIPE_CORE_COMM_RENDEZVOUS_JOB_SECRET_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "core/base/status.h"
#include "core/comm/rendezvous/job_address.h"

namespace dpipe {

// 64 hexadecimal digits; the launcher of local processes sets it (local_launcher.h).
inline constexpr char kSecretVariable[] = "DPIPE_JOB_SECRET";
// Path of a file with 64 hexadecimal digits.
inline constexpr char kSecretFileVariable[] = "DPIPE_JOB_SECRET_FILE";

class JobSecret {
 public:
  static constexpr size_t kBytes = 32;

  JobSecret() = default;  // none
  // Returns a new one.
  static JobSecret Random();
  // InvalidArgument if `hex` is not 64 hexadecimal digits; names `source`, not `hex`.
  static absl::StatusOr<JobSecret> FromHex(absl::string_view hex, const std::string& source);

  bool empty() const { return bytes_.empty(); }
  std::string Hex() const;
  // Where it comes from, for people: "DPIPE_JOB_SECRET", "the file /home/ann/.dpipe/job_secret".
  const std::string& source() const { return source_; }
  // Proves knowledge of the secret: HMAC-SHA256 of `text`, of kHmacBytes (hmac.h).
  std::string Sign(absl::string_view text) const;

 private:
  JobSecret(std::string bytes, std::string source)
      : bytes_(std::move(bytes)), source_(std::move(source)) {}

  std::string bytes_;  // kBytes, or none
  std::string source_;
};

// Reads a file that holds 64 hexadecimal digits. FailedPrecondition if it is not a regular file of
// this user that nobody else can read or write, with the command that mends it.
absl::StatusOr<JobSecret> ReadSecretFile(const std::string& path);

// Returns the secret of the file FOLDER/job_secret. Makes both, for this user alone, if they are
// not there; of processes that do so together, on one host or several, all get the same secret.
// FailedPrecondition if others can use the folder or the file.
absl::StatusOr<JobSecret> ReadOrMakeSecretFile(const std::string& folder);

// Returns the secret of a job's process from the first of these that there is:
//   1. the file `secret_file`, unless that is empty;
//   2. the variable DPIPE_JOB_SECRET;
//   3. the file that the variable DPIPE_JOB_SECRET_FILE names;
//   4. this user's own file ~/.dpipe/job_secret, made when first needed. Processes on several
//      hosts share it if they share the home folder;
//   5. for processes on one host whose user has no home folder: the file
//      /tmp/dpipe-USER_ID/job_secret.
// Errors name the source and the way out. An error too if several hosts have none of these.
absl::StatusOr<JobSecret> FindJobSecret(const JobAddress& address, const std::string& secret_file,
                                        const Environment& environment);

}  // namespace dpipe

#endif  // DPIPE_CORE_COMM_RENDEZVOUS_JOB_SECRET_H_
