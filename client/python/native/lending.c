#include "client/python/native/lending.h"

#include <pthread.h>
#include <stdlib.h>

#include "client/python/native/refusal.h"

/* kiln.h gives back an address, the framework wants its own handle: a table of
 * what is lent, by address. Lists hang in a fixed number of buckets, more than
 * there are results alive in most programs. */
enum { kBuckets = 4096 };

typedef struct Loan {
  void* memory;
  DlpackManaged* owner;
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

static void* Allocate(void* context, int64_t bytes, void* stream) {
  (void)stream; /* the framework's current one, which the run is on */
  Loan* loan = malloc(sizeof(Loan));
  if (loan == NULL) return NULL;
  DlpackTensor like = {.rank = 1};
  like.device.type = kDlpackCuda;
  like.device.ordinal = (int32_t)(intptr_t)context;
  like.type.code = kDlpackUInt;
  like.type.bits = 8;
  like.type.lanes = 1;
  like.sizes = &bytes;
  if (framework->allocate(&like, &loan->owner, NULL, &Refused) != 0) {
    kiln_refusal_note_raised();
    free(loan);
    return NULL;
  }
  loan->memory = loan->owner->tensor.data;
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
  if (loan == NULL) return;
  loan->owner->deleter(loan->owner);
  free(loan);
}

void kiln_lend(const DlpackExchange* exchange, int ordinal,
               KilnAllocator* allocator) {
  framework = exchange;
  allocator->context = (void*)(intptr_t)ordinal;
  allocator->allocate = &Allocate;
  allocator->release = &Release;
}
