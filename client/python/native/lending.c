#include "client/python/native/lending.h"

#include <pthread.h>
#include <stdlib.h>

#include "client/python/native/making.h"
#include "client/python/native/refusal.h"
#include "client/python/native/results.h"

/* kiln.h gives back an address, the framework wants its own handle: a table of
 * what is lent, by address. Lists hang in a fixed number of buckets, more than
 * there are results alive in most programs. */
enum { kBuckets = 4096 };

typedef struct Loan {
  void* memory;
  void* tensor;         /* libtorch's handle, or */
  DlpackManaged* owner; /* what the table gave */
  struct Loan* next;
} Loan;

static Loan* loans[kBuckets];
static pthread_mutex_t loans_lock = PTHREAD_MUTEX_INITIALIZER;
static const DlpackExchange* framework;

static Loan** BucketOf(const void* memory) {
  /* The framework's addresses are multiples of 512. */
  return &loans[((uintptr_t)memory >> 9) % kBuckets];
}

static void Refused(void* context, const char* kind, const char* message) {
  (void)context;
  (void)kind;
  kiln_refusal_note(message);
}

/* Memory for `loan`, by the table. 0, or -1 with words in refusal.h. */
static int TakeByTable(Loan* loan, int ordinal, int64_t bytes) {
  DlpackTensor like = {.rank = 1};
  like.device.type = kDlpackCuda;
  like.device.ordinal = ordinal;
  like.type.code = kDlpackUInt;
  like.type.bits = 8;
  like.type.lanes = 1;
  like.sizes = &bytes;
  if (framework->allocate(&like, &loan->owner, NULL, &Refused) != 0) {
    kiln_refusal_note_raised();
    return -1;
  }
  loan->memory = loan->owner->tensor.data;
  return 0;
}

static int Take(Loan* loan, int ordinal, int64_t bytes) {
  if (!kiln_made_is_known()) return TakeByTable(loan, ordinal, bytes);
  const int64_t stride = 1;
  loan->tensor = kiln_making_new(ordinal, KILN_UINT8, 1, &bytes, &stride,
                                 &loan->memory);
  return loan->tensor != NULL ? 0 : -1;
}

static void Free(Loan* loan) {
  if (loan->tensor != NULL) {
    kiln_making_free(loan->tensor);
  } else {
    loan->owner->deleter(loan->owner);
  }
  free(loan);
}

static void* Allocate(void* context, int64_t bytes, void* stream) {
  (void)stream; /* the framework's current one, which the run is on */
  Loan* loan = calloc(1, sizeof(Loan));
  if (loan == NULL) return NULL;
  if (Take(loan, (int)(intptr_t)context, bytes) != 0) {
    free(loan);
    return NULL;
  }
  pthread_mutex_lock(&loans_lock);
  Loan** bucket = BucketOf(loan->memory);
  loan->next = *bucket;
  *bucket = loan;
  pthread_mutex_unlock(&loans_lock);
  return loan->memory;
}

static void Release(void* context, void* memory, int64_t bytes, void* stream) {
  (void)context;
  (void)bytes;
  (void)stream;
  pthread_mutex_lock(&loans_lock);
  Loan** place = BucketOf(memory);
  while (*place != NULL && (*place)->memory != memory) place = &(*place)->next;
  Loan* loan = *place;
  if (loan != NULL) *place = loan->next;
  pthread_mutex_unlock(&loans_lock);
  if (loan != NULL) Free(loan);
}

void* kiln_lent_tensor(const void* memory) {
  pthread_mutex_lock(&loans_lock);
  const Loan* loan = *BucketOf(memory);
  while (loan != NULL && loan->memory != memory) loan = loan->next;
  void* const tensor = loan == NULL ? NULL : loan->tensor;
  pthread_mutex_unlock(&loans_lock);
  return tensor;
}

void kiln_lend(const DlpackExchange* exchange, int ordinal,
               KilnAllocator* allocator) {
  framework = exchange;
  allocator->context = (void*)(intptr_t)ordinal;
  allocator->allocate = &Allocate;
  allocator->release = &Release;
}
