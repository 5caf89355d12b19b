#include "core/report/page/packed_fold.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/report/markup.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/gzip_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace dpipe::report {
namespace {

namespace io = google::protobuf::io;

constexpr absl::string_view kOpen =
    "<noscript><p class=\"note\">Enable JavaScript to view this.</p></noscript>"
    "<script type=\"application/gzip\">";
constexpr absl::string_view kClose = "</script>";

std::string Compress(const std::string& text) {
  std::string compressed;
  io::StringOutputStream out(&compressed);
  io::GzipOutputStream::Options options;
  options.compression_level = 9;
  io::GzipOutputStream gzip(&out, options);
  {
    io::CodedOutputStream coded(&gzip);
    coded.WriteString(text);
  }
  DPIPE_CHECK(gzip.Close()) << "gzip of " << text.size() << " bytes in memory";
  return compressed;
}

absl::StatusOr<std::string> Decompress(const std::string& compressed) {
  io::ArrayInputStream in(compressed.data(), static_cast<int>(compressed.size()));
  io::GzipInputStream gzip(&in);
  std::string text;
  const void* data = nullptr;
  int size = 0;
  while (gzip.Next(&data, &size)) text.append(static_cast<const char*>(data), size);
  if (gzip.ZlibErrorCode() >= 0) return text;
  return absl::InvalidArgumentError(absl::StrCat("a packed fold of ", compressed.size(),
                                                 " bytes: zlib error ", gzip.ZlibErrorCode()));
}

}  // namespace

std::string PackedFold(const std::string& summary, const std::string& html) {
  return absl::StrCat("<details class=\"packed\"><summary>", EscapeMarkup(summary), "</summary>",
                      kOpen, absl::Base64Escape(Compress(html)), kClose, "</details>\n");
}

absl::StatusOr<std::string> UnpackFolds(absl::string_view page) {
  std::string unpacked;
  for (size_t begin = 0;;) {
    const size_t open = page.find(kOpen, begin);
    if (open == absl::string_view::npos) {
      return absl::StrCat(unpacked, page.substr(begin));
    }
    const size_t packed = open + kOpen.size(), close = page.find(kClose, packed);
    std::string compressed;
    if (close == absl::string_view::npos ||
        !absl::Base64Unescape(page.substr(packed, close - packed), &compressed)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the packed fold at byte ", open, " of ", page.size(), " is not base64"));
    }
    DPIPE_ASSIGN_OR_RETURN(const std::string html, Decompress(compressed));
    absl::StrAppend(&unpacked, page.substr(begin, open - begin), html);
    begin = close + kClose.size();
  }
}

}  // namespace dpipe::report
