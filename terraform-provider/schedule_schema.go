package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/corvo/corvo/api"
)

// The API's defaults of a schedule. The provider sends them, so that a plan shows them and
// detects changes made outside Terraform.
const (
	defaultTimezone    = "UTC"
	defaultPayload     = "{}"
	defaultMaxAttempts = 3
	noJitter           = "0s"
)

var scheduleAttributes = attributes{
	"name":        "name",
	"queue":       "queue",
	"cron":        "cron",
	"timezone":    "timezone",
	"payload":     "payload",
	"unique_key":  "unique_key",
	"max_retries": "max_retries",
	"priority":    "priority",
	"missed":      "missed",
	"jitter":      "jitter",
	"paused":      "paused",
	"tags":        "tags",
	"headers":     "headers",
}

var (
	isCron = checked{`a cron expression like "0 9 * * mon-fri"`, func(text string) error {
		n := len(strings.Fields(text))
		switch {
		case len(text) > maxCronText:
			return fmt.Errorf("it has %d bytes; at most %d are allowed", len(text), maxCronText)
		case strings.HasPrefix(strings.TrimSpace(text), "@"), n == 5, n == 6:
			return nil // the server checks the rest
		}
		return fmt.Errorf("it has %d fields, not 5 (minute, hour, day of month, month, day of week) or 6 with the second first", n)
	}}
	isPayload = checked{"JSON", func(text string) error {
		v, err := readJSON(text)
		if err == nil && v == nil {
			return errors.New("it is null, which means no payload: leave it out")
		}
		return err
	}}
)

func scheduleSchema() schema.Schema {
	all := scheduleSettings()
	all["id"] = schema.StringAttribute{
		Computed:      true,
		PlanModifiers: []planmodifier.String{stringplanmodifier.UseStateForUnknown()},
		Description:   "Id of the schedule.",
	}
	all["namespace"] = schema.StringAttribute{
		Optional: true, Computed: true,
		Validators:  []validator.String{stringvalidator.LengthAtLeast(1)},
		Description: namespaceDescription + " Without both: the API key's namespace.",
	}
	all["next_run"] = schema.StringAttribute{
		Computed:    true,
		Description: "Time of the next run, as of Terraform's last read; null while the schedule is paused.",
	}
	all["version"] = schema.Int64Attribute{
		Computed:    true,
		Description: "Version of the schedule, which every change increases. An update is refused if another change came between.",
	}
	return schema.Schema{
		Description: "A schedule, which creates a job at the times of a cron expression. All attributes except the namespace change in place.",
		Attributes:  all,
	}
}

func scheduleSettings() map[string]schema.Attribute {
	strings := schema.MapAttribute{
		ElementType: types.StringType, Optional: true,
		Validators: []validator.Map{mapvalidator.NoNullValues()},
	}
	tags, headers := strings, strings
	tags.Description, headers.Description = "Tags of the jobs. Default: none.", "Headers of the jobs. Default: none."
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required:    true,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxScheduleName)},
			Description: "Name of the schedule, unique in the namespace.",
		},
		"queue": schema.StringAttribute{
			Required:    true,
			Validators:  []validator.String{isQueueName},
			Description: "Queue of the jobs, which need not exist.",
		},
		"cron": schema.StringAttribute{
			Required:      true,
			PlanModifiers: []planmodifier.String{alike(sameCron)},
			Validators:    []validator.String{isCron},
			Description:   "Times of the runs: five fields (minute, hour, day of month, month, day of week), six with the second first, or @hourly, @daily, ... Blanks and case do not matter.",
		},
		"timezone": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(defaultTimezone),
			Validators:  []validator.String{stringvalidator.LengthAtLeast(1)},
			Description: "Time zone of cron, by its IANA name, such as Europe/Berlin. Default: UTC.",
		},
		"payload": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(defaultPayload),
			PlanModifiers: []planmodifier.String{alike(sameJSON)},
			Validators:    []validator.String{isPayload},
			Description:   "Payload of the jobs as JSON, such as jsonencode({ kind = \"daily\" }). The order of names does not matter. The state contains it, so put no secret into it. Default: {}.",
		},
		"unique_key": schema.StringAttribute{
			Optional:    true,
			Validators:  []validator.String{stringvalidator.LengthBetween(1, maxUniqueKey)},
			Description: "Unique key of the jobs: a run creates a job only if the one before has settled. Default: none.",
		},
		"max_retries": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(defaultMaxAttempts),
			Validators:  []validator.Int64{int64validator.Between(1, maxAttempts)},
			Description: "Limit on attempts of a job, including the first: 1 to 1000. Default: 3.",
		},
		"priority": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(string(api.Normal)),
			Validators:  []validator.String{aPriority},
			Description: "Priority of the jobs: critical, high or normal (default).",
		},
		"missed": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(api.MissedOnce),
			Validators:  []validator.String{stringvalidator.OneOf(api.MissedSkip, api.MissedOnce, api.MissedAll)},
			Description: "Handling of runs missed during downtime: skip, once (default; one job for all of them) or all.",
		},
		"jitter": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(noJitter),
			PlanModifiers: []planmodifier.String{alike(sameDuration)},
			Validators:    []validator.String{isDurationWithin(0, maxScheduleJitter)},
			Description:   "Longest random delay of a run, so that schedules of one time do not start together: at most 1h. Default: 0s.",
		},
		"paused": schema.BoolAttribute{
			Optional: true, Computed: true, Default: booldefault.StaticBool(false),
			Description: "Whether the schedule is paused. Default: false.",
		},
		"tags":    tags,
		"headers": headers,
	}
}
